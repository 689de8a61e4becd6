"""The project's own files agree with each other, and with what a fresh machine needs."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import catalog_ext
from catalog_ext.spark.storage import s3a_packages
from release.__main__ import closing_lines, numbered_steps
from release.notes import NoReleaseNotesError, section, write_notes
from release.project import PROJECT, PYPROJECT, Project
from tests.kit.sparks import since
from tests.servers.composition import COMPOSE, Composition, instructions, variables_of_compose
from tests.servers.containers import MARIADB_IMAGE, POSTGRES_IMAGE

if TYPE_CHECKING:
    from pathlib import Path

_OF_THE_LOCK = "3.11"
"""The oldest Python that the newest PySpark takes, and so the checkout; the wheel takes 3.10 too."""
README = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]


def locked(file: str) -> dict[str, list[str]]:
    """The pins of a lock, each with its hashes."""
    text = (PROJECT / file).read_text(encoding="utf-8").replace(" \\\n", "\n")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(" "):
            found[next(reversed(found))].append(line.strip())
        else:
            found[line] = []
    return found


LOCK = locked("requirements.lock")


def declared() -> list[Requirement]:
    project = PYPROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(text) for each in lists for text in each if not text.startswith("catalog-ext")]
    return [one for one in found if one.marker is None or one.marker.evaluate({"python_version": _OF_THE_LOCK})]


def linked_folders() -> list[str]:
    """The folders at the top that are of the package by a link."""
    return [path.readlink().name for path in (PROJECT / "catalog_ext").iterdir() if path.is_symlink()]


@pytest.mark.parametrize("lock", ["requirements.lock", "docker/requirements.lock"])
def test_the_lock_is_plain_pins_with_hashes(lock: str) -> None:
    pin = re.compile(r"[a-z0-9-]+(\[[a-z,]+\])?==[0-9a-z.+!]+( ; .+)?")
    a_hash = re.compile(r"--hash=sha256:[0-9a-f]{64}")
    pins = locked(lock)
    assert [line for line in pins if not pin.fullmatch(line)] == []
    assert [line for line, hashes in pins.items() if not hashes] == []
    assert [each for hashes in pins.values() for each in hashes if not a_hash.fullmatch(each)] == []


def test_image_gets_the_locked_packages() -> None:
    """It has those of the catalog and of PostgreSQL, at the versions that the tests have."""
    whole = {line.partition(" ;")[0]: hashes for line, hashes in LOCK.items()}
    image = {line.partition(" ;")[0]: hashes for line, hashes in locked("docker/requirements.lock").items()}
    assert {pin: whole.get(pin) for pin in image} == image
    names = {canonicalize_name(Requirement(pin).name) for pin in image}
    project = PYPROJECT["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["postgresql"]]
    assert {canonicalize_name(Requirement(text).name) for text in needed} <= names


def test_images_of_the_tests_are_pinned_and_those_of_compose() -> None:
    images = {service["image"] for service in compose()["services"].values() if "@" in service["image"]}
    assert [image for image in (POSTGRES_IMAGE, MARIADB_IMAGE) if not re.fullmatch(_PINNED, image)] == []
    assert POSTGRES_IMAGE in images


@pytest.mark.parametrize("requirement", declared(), ids=lambda requirement: requirement.name)
def test_the_lock_fits_the_ranges(requirement: Requirement) -> None:
    pins = [Requirement(line) for line in LOCK]
    versions = [
        next(iter(pin.specifier)).version
        for pin in pins
        if canonicalize_name(pin.name) == canonicalize_name(requirement.name)
    ]
    assert versions, f"{requirement.name} is not in requirements.lock: make lock"
    assert all(requirement.specifier.contains(version) for version in versions)


def test_runtime_dependencies_are_ranges() -> None:
    unbounded = [text for text in PYPROJECT["project"]["dependencies"] if ">=" not in text]
    assert unbounded == []


def test_every_error_names_the_range_of_sparks() -> None:
    (declared,) = (text for text in PYPROJECT["project"]["dependencies"] if text.startswith("pyspark"))
    named = [
        (str(file.relative_to(PROJECT)), text)
        for folder in ("catalog_ext", "metastore")
        for file in (PROJECT / folder).rglob("*.py")
        for text in re.findall(r"pyspark>=[\d.,<]+", file.read_text(encoding="utf-8"))
    ]
    assert named
    assert [found for found in named if found[1] != declared] == []


def test_make_help_lists_every_target() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    answer = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    listed = {line.split()[0] for line in answer.stdout.splitlines() if line.startswith("  ")}
    assert listed == set(phony)


def test_ci_runs_lint_then_the_tests() -> None:
    script = PROJECT / ".ci" / "run"
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if line.startswith("make ")]
    assert commands == ["make lint", "make test"]
    assert script.stat().st_mode & 0o111


def test_missing_python_is_named_with_the_remedy(tmp_path: Path) -> None:
    answer = subprocess.run(
        ["make", "--no-print-directory", "prerequisites", f"PYTHON={tmp_path}/python3"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert "Python 3.11 or newer is needed" in answer.stderr
    assert "apt-get install python3" in answer.stderr


KNOWN_KEYS = {
    "build",
    "command",
    "configs",
    "depends_on",
    "entrypoint",
    "environment",
    "healthcheck",
    "image",
    "init",
    "ports",
    "profiles",
    "restart",
    "secrets",
    "stop_grace_period",
    "volumes",
}
OURS = ("catalog-ext", "catalog-ext-metastore")


def compose() -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return content


def test_compose_has_the_shape_of_production() -> None:
    parts = {
        "postgres",
        "s3",
        "metastore",
        "migrate",
        "service",
        "spark-master",
        "spark-worker",
        "thrift-server",
        "trino",
    }
    assert parts <= set(compose()["services"])


@pytest.mark.parametrize("name", sorted(compose()["services"]))
def test_compose_service_is_pinned_watched_and_local(name: str) -> None:
    service = compose()["services"][name]
    assert set(service) <= KNOWN_KEYS
    image, _, tag = service["image"].partition(":")
    digest = "" if image in OURS else r"@sha256:[0-9a-f]{64}"
    assert re.fullmatch(r"\d+(\.\d+)*[\w.-]*" + digest, tag), service["image"]
    # What is built here has the version of the package; everything else is named with one.
    assert (tag == catalog_ext.__version__, "build" in service) == (image in OURS, image in OURS)
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if service.get("restart") == "no":  # runs once
        return
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert set(check) == {"test", "interval", "timeout", "retries", "start_period"}
    assert check["test"][0] == "CMD"
    assert all(re.fullmatch(r"\d+s", check[key]) for key in ("interval", "timeout", "start_period"))


def test_compose_waits_for_what_is_ready() -> None:
    content = compose()
    before: set[str] = set()
    for name, service in content["services"].items():
        for other, how in service.get("depends_on", {}).items():
            once = content["services"][other].get("restart") == "no"
            expected = "service_completed_successfully" if once else "service_healthy"
            assert how == {"condition": expected}, (name, other)
            assert other in before, f"{name} is started after {other}, and stands before it"
        before.add(name)
        assert {mount["source"] for mount in service.get("configs", ())} <= set(content["configs"])
        assert set(service.get("secrets", ())) <= set(content["secrets"])
        assert {mount.partition(":")[0] for mount in service.get("volumes", ())} <= set(content["volumes"])


def test_compose_has_every_password_by_a_variable() -> None:
    defaults = variables_of_compose()
    text = COMPOSE.read_text(encoding="utf-8")
    assert {name for name in defaults if name in text.partition("\nname:")[0]} == set(defaults), "the head names all"
    assert set(defaults.values()) == {"for-trying-only", "docker/token.for-trying"}
    token = (PROJECT / defaults["LAKE_TOKEN_FILE"]).read_text(encoding="ascii").strip()
    assert "for-trying-only" in token
    given = Composition({name: f"own-{name}" for name in defaults})
    settings = yaml.safe_dump([given.services, *map(given.config, ("metastore-site", "spark-defaults", "trino-lake"))])
    assert "for-trying" not in settings
    found = re.findall(
        r"(?i)(?:password|secret)[\w.-]*[ =:]+(?!\$)([\w-]+)", "\n".join(rest for _, rest in instructions())
    )
    assert found == [], "the Dockerfile has no secret"


_PINNED = r"[\w/-]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}"
"""An image by tag and digest: a tag may be moved to another image."""


def test_the_dockerfile_is_pinned_and_ends_without_root() -> None:
    stages: dict[str, list[tuple[str, str]]] = {}
    for name, rest in instructions():
        if name == "FROM":
            image, _, stage = rest.partition(" AS ")
            assert image in stages or re.fullmatch(_PINNED, image), image
            stages[stage] = []
        stages[stage].append((name, rest))
    targets = {service["build"]["target"] for service in compose()["services"].values() if "build" in service}
    for target in targets:
        users = [rest for name, rest in stages[target] if name == "USER"]
        assert users[-1] not in ("root", "0"), target
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (PROJECT / source).exists()
                assert source == "." or source.split("/")[0] in kept, source
    assert {*PYPROJECT["project"]["license-files"], *(fragment["path"] for fragment in README["fragments"])} <= kept
    assert set(linked_folders()) <= kept


@since((4, 3), "the Hadoop of the image")
def test_the_images_jars_are_those_of_a_session() -> None:
    root = ElementTree.parse(PROJECT / "docker" / "ivy.xml").getroot()
    dependencies = root.findall("dependencies/dependency")
    packages = [
        ":".join(d.attrib[key] for key in ("org", "name", "rev")) for d in dependencies if "spark" in d.attrib["conf"]
    ]
    excluded = [f"{e.attrib['org']}:{e.attrib['module']}" for e in root.findall("dependencies/exclude")]
    assert {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(excluded)} == s3a_packages()


HEAVY = ("alembic", "boto3", "pyarrow", "pyspark", "sqlalchemy", "sqlglot", "starlette", "thrift", "uvicorn")


@pytest.mark.parametrize(
    "program",
    [
        "import catalog_ext; catalog_ext.__version__",
        "from catalog_ext.cli.main import main; assert main(['--version']) == 0",
    ],
    ids=["import", "version"],
)
def test_what_starts_often_imports_nothing_heavy(program: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print('', *sys.modules)"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(set(HEAVY) & set(answer.stdout.split())) == []


def test_the_version_is_stated_once() -> None:
    assert PYPROJECT["tool"]["hatch"]["version"] == {"path": "catalog_ext/__init__.py"}
    assert importlib.metadata.version("catalog-ext") == catalog_ext.__version__


def test_every_address_is_in_one_repository() -> None:
    urls = PYPROJECT["project"]["urls"]
    assert all(url.startswith(urls["Repository"]) for url in urls.values())
    assert all(each["replacement"].startswith(f"]({urls['Repository']}/") for each in README["substitutions"])


def test_a_build_ends_with_the_command_that_installs_it() -> None:
    wheel = "dist/catalog_ext-1-py3-none-any.whl"
    assert closing_lines(wheel, has_home=True) == [f"Made {wheel}. Install it: pip install {wheel}"]
    (first, last) = closing_lines(wheel, has_home=False)
    assert first.startswith("For an upload only: [project.urls]")
    assert last.endswith(f"pip install {wheel}")


def test_build_numbers_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    begin = numbered_steps(2)
    begin("Wheel")
    begin("Release notes")
    assert capsys.readouterr().out == "[1/2] Wheel\n[2/2] Release notes\n"


def test_release_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    changelog = "# Changelog\n\n## 0.1.10\n\nlater\n\n## 0.1.1 (2026-01-02)\n\n- [a](docs/a.md)\n\n## 0.1.0\n"
    assert section(changelog, "0.1.1") == "- [a](docs/a.md)"
    for version in ("0.1.0", "0.2.0"):
        with pytest.raises(NoReleaseNotesError, match=f"no section '## {version}'"):
            section(changelog, version)
    project = Project.read()
    notes = write_notes(project, tmp_path).read_text(encoding="utf-8")
    assert notes.startswith(f"catalog-ext {catalog_ext.__version__}\n\n")
    assert f"[sql]({project.url}/blob/v{project.version}/docs/sql.md)" in notes
