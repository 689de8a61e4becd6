# Everything happens in .venv, made from requirements.lock; only Python 3.11+ (what the newest
# PySpark takes; the wheel takes 3.10 too) and Java 17+ must be there before.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests or paths to run: make test T=tests/unit/model/test_values.py
T      ?= tests
# Benchmarks to run: make bench B="planning first"; all by default but B=peers, which takes hours
B      ?=
KEEP   ?=
# Sparks to run tests on: make matrix M="4.0 4.1"; all by default
M      ?=
# Neighbours to run: make neighbours N="dbt airflow"; all by default
N      ?=

# A run of the tests starts hundreds of Python processes: what they import is compiled once, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

# Three processes on two cores, as tests wait a fifth of their time for disks, servers and processes.
TESTS  := $(BIN)/python -m pytest --numprocesses 3
# A share of hypothesis' examples (tests/kit/examples.py), folders in memory (tests/kit/scratch.py)
QUICK  := $(TESTS) --hypothesis-profile quick --in-memory

# The hash of each file of each package, so that no registry can give another one
LOCKED := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help venv prerequisites lock demo test check unit matrix neighbours lint format surface docs tutorial site site-serve screenshots bench jar package patches sign clean distclean

##@ Start here
help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

demo: $(STAMP)  ## The main job on real servers and data, in minutes (KEEP=1 leaves it running)
	@$(BIN)/python -m examples.demo $(if $(KEEP),--keep)

##@ Set-up
prerequisites:  ## Say whether Python and Java are there and new enough
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed as '$(PYTHON)': apt-get install python3 python3-venv, or make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m catalog_ext.metastore.runtime.java

venv: $(STAMP)  ## Make .venv from requirements.lock (quick when nothing changed)

$(STAMP): pyproject.toml requirements.lock
	@$(MAKE) --no-print-directory prerequisites
	@echo "Installing the locked packages into $(VENV) (the first time downloads about 700 MB) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock:  ## Renew requirements.lock from pyproject.toml, and that of the image from it
	$(LOCKED) --all-extras --upgrade --output-file requirements.lock pyproject.toml
	$(LOCKED) --extra postgresql --constraint requirements.lock --output-file docker/requirements.lock pyproject.toml

##@ Check
lint: $(STAMP)  ## Style, types, import direction, docs, plain English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tests/checks/import_cycles.py
	$(BIN)/python tests/checks/docs_check.py
	$(BIN)/python tests/checks/plain_english_check.py

format: $(STAMP)  ## Rewrite what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(STAMP)  ## Every test, with real servers (T=path for a part)
	$(TESTS) --dist loadfile --no-loadscope-reorder --durations=50 $(T)

check: lint  ## In minutes: lint, all unit tests, service, faults on SQLite, a statement of each kind in Spark
	$(QUICK) -m "not server" tests/unit tests/service tests/faults tests/migrations
	$(BIN)/python -m pytest tests/integration/test_smoke.py

unit: $(STAMP)  ## What needs neither a JVM nor a server, nor long: in a minute
	$(QUICK) -m "not slow" tests/unit

matrix: $(STAMP)  ## Tests on each Spark and Python, kept in docs/compatibility.md (M="4.0 4.1": some)
	@$(BIN)/python -m tests.matrix $(M)

neighbours: $(STAMP)  ## dbt, Airflow, pandera and data frames on our tables, kept in docs/neighbours.md (N="dbt airflow": some)
	@$(BIN)/python -m tests.neighbours $(N)

surface: $(STAMP)  ## Renew the snapshot of the public surface, after a change that is meant to change it
	$(BIN)/python -m tests.contract.surface.snapshot

##@ Build
docs: $(STAMP)  ## Write the generated reference pages
	$(BIN)/python -m docs.tools.reference
	$(BIN)/python -m docs.tools.error_reference

tutorial: $(STAMP)  ## Run docs/tutorial.ipynb, and keep what its cells show
	$(BIN)/python -m docs.tools.tutorial

# The notice is of what will come after MkDocs 1 and Material 9, which pyproject.toml holds us to.
site site-serve: export NO_MKDOCS_2_WARNING := 1
site: $(STAMP)  ## The documentation as a site, in build/site; with the pictures of `make screenshots`, if it was run
	$(BIN)/mkdocs build --quiet --config-file docs/site/mkdocs.yml

site-serve: $(STAMP)  ## The same on http://127.0.0.1:8000, built again when a page is saved
	$(BIN)/mkdocs serve --livereload --config-file docs/site/mkdocs.yml --watch README.md --watch docs/site

screenshots: $(STAMP)  ## Make the pictures of the page, in build/screenshots
	CATALOG_EXT_SCREENSHOTS=build/screenshots $(BIN)/python -m pytest -q tests/integration/page -k fits

jar: $(STAMP)  ## Compile the Spark connector against the installed PySpark
	$(BIN)/python -m catalog_ext.connector.build

package: $(STAMP)  ## The wheel with a jar for each Spark, the source archive and the Maven artifacts, into dist/
	@$(BIN)/python -m release

patches: $(STAMP)  ## Whether the jar of each Spark links with its oldest patch too (M="4.0 4.1": some)
	@$(BIN)/python -m release.patches $(M)

sign: $(STAMP)  ## Sign the Maven artifacts of dist/, and pack them for upload (KEY=the id of a GnuPG key)
	@$(BIN)/python -m release.maven $(KEY)

bench: $(STAMP)  ## Measure, and keep the tables in docs/benchmarks.md (B="planning first": print a part)
	@$(BIN)/python -m tests.benchmarks $(B)

##@ Clean
clean:  ## Remove what was built; keep .venv
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find catalog_ext docs examples metastore migrations tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## Remove .venv, .matrix and .neighbours as well
	rm -rf $(VENV) .matrix .neighbours
