"""What docker-compose.yml says, and the table by which its commands run here, as processes instead of containers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.servers.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROJECT = Path(__file__).resolve().parents[2]
COMPOSE = PROJECT / "docker-compose.yml"
DOCKERFILE = PROJECT / "docker" / "Dockerfile"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


class Composition:
    """``docker-compose.yml`` with its variables replaced, as Compose does.

    Args:
        variables: What ``.env`` would have; the others take their defaults.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        given = variables or {}
        text = _VARIABLE.sub(lambda found: given.get(found[1], found[2]), COMPOSE.read_text(encoding="utf-8"))
        self._content: dict[str, Any] = yaml.safe_load(text)
        self.services: dict[str, dict[str, Any]] = self._content["services"]

    def config(self, name: str) -> str:
        """The content of a config."""
        config = self._content["configs"][name]
        content: str = config["content"] if "content" in config else (PROJECT / config["file"]).read_text()
        return content

    def ports(self) -> set[str]:
        """Every port that a service listens on, by a flag or as published."""
        published = {port.rpartition(":")[2] for each in self.services.values() for port in each.get("ports", ())}
        flags = re.findall(r"port(?:\.grpc)?=([1-9]\d+)", " ".join(self.services["s3"]["command"]))
        return published | set(flags)


def variables_of_compose() -> dict[str, str]:
    """The variables that may be given, and their defaults."""
    found = _VARIABLE.findall(COMPOSE.read_text(encoding="utf-8"))
    assert len(set(found)) == len({name for name, _ in found}), "a variable has two defaults"
    return dict(found)


def instructions(dockerfile: Path = DOCKERFILE) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile in order, each with its arguments on one line."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


class Places:
    """Where what the containers know by name is on this machine.

    Hosts and ``0.0.0.0`` become the loopback interface, ports free ones, and paths of ``paths`` others.
    """

    def __init__(self, hosts: Iterable[str], ports: Iterable[str], paths: Mapping[str, Path]) -> None:
        names = "|".join(map(re.escape, sorted(hosts, key=len, reverse=True)))
        self._hosts = re.compile(rf"(?<![\w.-])(?:{names})(?=:\d|/\d|$)|(?<=-ip=)(?:{names})$|0\.0\.0\.0", re.MULTILINE)
        wanted = sorted(ports)
        self.ports = dict(zip(wanted, map(str, free_ports(len(wanted))), strict=True))
        self._ports = re.compile(rf"(?<!\w)(?:{'|'.join(wanted)})(?!\w)")
        self._paths = {path: str(place) for path, place in paths.items()}
        self._path = re.compile(
            rf"(?<![\w/])(?:{'|'.join(map(re.escape, sorted(paths, key=len, reverse=True)))})(?![\w-])"
        )

    def here(self, text: str) -> str:
        """``text`` as it holds on this machine."""
        local = self._hosts.sub("127.0.0.1", text)
        local = self._ports.sub(lambda found: self.ports[found[0]], local)
        return self._path.sub(lambda found: self._paths[found[0]], local)
