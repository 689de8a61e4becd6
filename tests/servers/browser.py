"""A real Chromium without a screen, and axe, which looks for what shuts people out of a page.

Chromium is the one that ``CATALOG_EXT_TEST_CHROMIUM`` names, or ``chromium`` on PATH (Debian's package), otherwise the
npm package ``@sparticuz/chromium`` (67 MB, x86-64 Linux), which brings its libraries and a font, so that neither root
nor a distribution's packages are needed. Playwright, which drives it, brings no browser.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import tarfile
import tempfile
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import brotli

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import cache_folder, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

VARIABLE = "CATALOG_EXT_TEST_CHROMIUM"
_TIMEOUT_SECONDS = 600
_ARGUMENTS = ("--use-gl=angle", "--use-angle=swiftshader", "--font-render-hinting=none", "--no-zygote")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A package of the npm registry: its name and version, and the SHA-256 of its archive."""

    name: str
    version: str
    sha256: str

    @property
    def url(self) -> str:
        """Where its archive is."""
        registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
        return f"{registry}/{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


CHROMIUM = NpmPackage(
    "@sparticuz/chromium", "153.0.0", "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
)
AXE = NpmPackage("axe-core", "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")


@dataclass(frozen=True, slots=True)
class Chromium:
    """An executable, and what its environment has besides."""

    executable: Path
    environment: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium:
    """The Chromium of the tests; fetched the first time.

    Raises:
        EnvironmentSetupError: it is missing and cannot be fetched.
    """
    named = os.environ.get(VARIABLE) or shutil.which("chromium")
    if named:
        return Chromium(Path(named))
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise EnvironmentSetupError(
            f"The tests of the page need a Chromium: install one, and name it in {VARIABLE}. One is fetched on x86-64 "
            "Linux alone."
        )
    folder = _unpacked(CHROMIUM, _unpack_chromium)
    return Chromium(
        folder / "chromium", {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}
    )


def axe_script() -> str:
    """The source of axe, which a page runs."""
    return (_unpacked(AXE, _unpack_axe) / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser, which ends with the block."""
    from playwright.sync_api import sync_playwright

    found = find_chromium()
    with tempfile.TemporaryDirectory(prefix="catalog-ext-browser-") as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.executable, args=list(_ARGUMENTS),
            # Its own sandbox needs rights that a container does not give; it sees our own pages alone.
            chromium_sandbox=False,
            env={**os.environ, "HOME": home, **found.environment},
        )  # fmt: skip
        try:
            yield browser
        finally:
            browser.close()


def _unpacked(package: NpmPackage, unpack: Callable[[tarfile.TarFile, Path], None]) -> Path:
    """The folder of the cache with what a package has; what is there is used as it is."""

    def made(work: Path) -> Path:
        folder = work / "made"
        folder.mkdir()
        with tarfile.open(fileobj=io.BytesIO(_fetched(package))) as archive:
            unpack(archive, folder)
        return folder

    name = f"{package.name.rpartition('/')[2]}-{package.version}"
    return kept(cache_folder() / name, made, _TIMEOUT_SECONDS)


def _fetched(package: NpmPackage) -> bytes:
    try:
        with urllib.request.urlopen(package.url, timeout=_TIMEOUT_SECONDS) as answer:
            data: bytes = answer.read()
    except OSError as error:
        raise EnvironmentSetupError(
            f"{package.name} {package.version} could not be fetched from {package.url}: {error}. Check the network and "
            "its proxy settings."
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if found != package.sha256:
        raise EnvironmentSetupError(f"{package.url} has the SHA-256 {found} and not {package.sha256}.")
    return data


def _unpack_axe(archive: tarfile.TarFile, folder: Path) -> None:
    (folder / "axe.min.js").write_bytes(_member(archive, "axe.min.js"))


def _unpack_chromium(archive: tarfile.TarFile, folder: Path) -> None:
    executable = folder / "chromium"
    executable.write_bytes(brotli.decompress(_member(archive, "bin/chromium.br")))
    executable.chmod(0o755)
    # al2023: the libraries that it is linked to, in lib; swiftshader: those that draw, which it looks for beside it.
    for name in ("al2023", "swiftshader", "fonts"):
        with tarfile.open(fileobj=io.BytesIO(brotli.decompress(_member(archive, f"bin/{name}.tar.br")))) as part:
            part.extractall(folder, filter="data")
    # Its own names folders that are not there, and Chromium stops where it finds no font. It is used where it will lie.
    final = cache_folder() / f"chromium-{CHROMIUM.version}"
    (folder / "fonts.conf").write_text(_FONTS.format(folder=final, cache=final / "font-cache"))


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/{name}")
    assert file is not None, name
    return file.read()
