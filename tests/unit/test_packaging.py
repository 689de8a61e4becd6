"""The project's own files agree with each other, and with what a fresh machine needs."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import catalog_ext

PROJECT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (PROJECT / "requirements.lock").read_text(encoding="utf-8").splitlines()


def declared() -> list[Requirement]:
    project = PYPROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(text) for each in lists for text in each if not text.startswith("catalog-ext")]


def test_the_lock_is_plain_pins() -> None:
    pin = re.compile(r"[a-z0-9-]+(\[[a-z,]+\])?==[0-9a-z.+!]+( ; .+)?")
    assert [line for line in LOCK if not pin.fullmatch(line)] == []


@pytest.mark.parametrize("requirement", declared(), ids=lambda requirement: requirement.name)
def test_the_lock_fits_the_ranges(requirement: Requirement) -> None:
    locked = [Requirement(line) for line in LOCK]
    versions = [
        next(iter(pin.specifier)).version
        for pin in locked
        if canonicalize_name(pin.name) == canonicalize_name(requirement.name)
    ]
    assert versions, f"{requirement.name} is not in requirements.lock: make lock"
    assert all(requirement.specifier.contains(version) for version in versions)


def test_runtime_dependencies_are_ranges() -> None:
    unbounded = [text for text in PYPROJECT["project"]["dependencies"] if ">=" not in text]
    assert unbounded == []


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


COMPOSE = PROJECT / "docker-compose.yml"
KNOWN_KEYS = {
    "command",
    "configs",
    "depends_on",
    "entrypoint",
    "environment",
    "healthcheck",
    "image",
    "ports",
    "restart",
    "user",
    "volumes",
}


def compose() -> dict[str, dict[str, dict[str, object]]]:
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


def test_compose_has_the_four_parts() -> None:
    assert {"postgres", "s3", "metastore", "spark"} <= set(compose()["services"])


@pytest.mark.parametrize("name", sorted(compose()["services"]))
def test_compose_service_is_pinned_watched_and_local(name: str) -> None:
    service = compose()["services"][name]
    assert set(service) <= KNOWN_KEYS
    assert re.fullmatch(r"[\w./-]+:\d+(\.\d+)+[\w.-]*", str(service["image"])), service["image"]
    ports = service.get("ports", [])
    assert isinstance(ports, list)
    assert all(str(port).startswith("127.0.0.1:") for port in ports)
    if service.get("restart") == "no":  # runs once
        return
    check = service["healthcheck"]
    assert isinstance(check, dict)
    assert set(check) == {"test", "interval", "timeout", "retries", "start_period"}
    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert all(re.fullmatch(r"\d+s", check[key]) for key in ("interval", "timeout", "start_period"))


def test_compose_waits_for_what_is_ready() -> None:
    content = compose()
    for name, service in content["services"].items():
        needed = service.get("depends_on", {})
        assert isinstance(needed, dict), f"{name}: depends_on must give conditions"
        for other, how in needed.items():
            once = content["services"][other].get("restart") == "no"
            expected = "service_completed_successfully" if once else "service_healthy"
            assert how == {"condition": expected}, (name, other)
        for mount in service.get("volumes", []):
            source = str(mount).split(":")[0]
            assert source in content["volumes"] or (PROJECT / source).exists(), (name, mount)


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
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "catalog_ext.__version__"}
    assert importlib.metadata.version("catalog-ext") == catalog_ext.__version__
