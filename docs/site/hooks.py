"""Makes of the plain Markdown of docs/ what MkDocs takes, so that the pages stay readable in the repository's browser.

* README.md, CHANGELOG.md and CONTRIBUTING.md, which lie above docs/, become pages of the site.
* Links that lead out of docs/ lead to those, otherwise to the repository that pyproject.toml names.
* Notebooks become pages, with the outputs that they were saved with.
* What CommonMark takes and Python-Markdown does not (a list right below a paragraph, an indent of two) is rewritten.
* A pattern in the navigation stands for the pages that there are.
* ``<!-- picture: NAME, what it shows -->`` becomes the picture that ``make screenshots`` has made, if it has.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown_it import MarkdownIt
from mkdocs.structure.files import File

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from xml.etree.ElementTree import Element

    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[2]
PICTURES = Path(os.environ.get("CATALOG_EXT_SCREENSHOTS", PROJECT / "build" / "screenshots"))
"""Where the tests of the page keep what they have seen."""
# Pages above docs/, and what they are called in the site.
_ABOVE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
# In the search: pages that name everything come behind those that explain it.
_WEIGHTS = {
    "tasks.md": 3.0, "troubleshooting.md": 2.0, "page.md": 2.0, "changelog.md": 0.2, "conformance.md": 0.3,
    "benchmarks.md": 0.3, "contributing.md": 0.3, "errors.md": 0.5, "api.md": 0.5, "spec/*": 0.6, "design/*": 0.6,
}  # fmt: skip
_OURS = Path(__file__).parent
_ICON = PROJECT / "catalog_ext" / "page" / "static" / "icon.svg"
_PICTURE = re.compile(r"^<!-- picture: (?P<name>[\w-]+), (?P<shows>[^>]+?) -->$", re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_MARKER = re.compile(r" *(?:[-*+]|\d+[.)])(?: +|$)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the navigation's patterns, have links looked at, and give headings GitHub's anchors."""
    config.nav = list(_filled_in(config.nav or [], Path(config.docs_dir)))
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor
    config.markdown_extensions.append(_Links())  # type: ignore[arg-type] # names are declared, and both are taken
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what does not lie in docs/, and take pages for notebooks."""
    for above, name in _ABOVE.items():
        files.append(File.generated(config, name, content=(PROJECT / above).read_text(encoding="utf-8")))
    files.append(File.generated(config, "site.css", abs_src_path=str(_OURS / "site.css")))
    files.append(File.generated(config, "favicon.svg", abs_src_path=str(_ICON)))
    for picture in sorted(PICTURES.glob("*.png")):
        files.append(File.generated(config, f"pictures/{picture.name}", abs_src_path=str(picture)))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        for made in _of_notebook(notebook, config):
            files.append(made)
        files.remove(notebook)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite a page for Python-Markdown."""
    links = next(each for each in config.markdown_extensions if isinstance(each, _Links))
    links.page, links.files = page.file.src_uri, files
    weights = (weight for pattern, weight in _WEIGHTS.items() if fnmatch(page.file.src_uri, pattern))
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # it would be the page itself
    page.meta["search"] = {"boost": next(weights, 1.0)}
    return "\n".join(rewritten(_PICTURE.sub(lambda found: _picture(found, page, files), markdown).split("\n")))


def github_anchor(title: str, _separator: str) -> str:
    """The anchor that GitHub gives a heading: the pages' links are written for it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def rewritten(lines: list[str], *, nested: bool = False) -> list[str]:
    """The lines with blank ones between blocks, and four spaces before what belongs to an item of a list.

    Args:
        lines: Of a page, or of an item of a list without its indent.
        nested: They are an item's. A list right below its text stays there, so that the item is no paragraph.
    """
    tokens = MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    items = [token.map for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
    made: list[str] = []
    for token in tokens:
        if token.level != 0 or token.map is None:
            continue
        first, end = token.map
        is_list = token.type in {"bullet_list_open", "ordered_list_open"}
        block = lines[first:end]
        if token.type == "table_open":
            block = [_CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) for line in block]
        elif is_list:
            block = [line for a, b in items if first <= a < end for line in _item(lines[a:b])]
        while not block[-1].strip():
            block.pop()
        apart = made and not (nested and is_list)
        made += ["", *block] if apart else block
    return made


def _item(lines: list[str]) -> list[str]:
    """The lines of an item of a list, with what is nested in it."""
    marker = _MARKER.match(lines[0])
    assert marker is not None, lines[0]
    width = marker.end()
    inner = [lines[0][width:], *(line[min(width, len(line) - len(line.lstrip())) :] for line in lines[1:])]
    first, *rest = rewritten(inner, nested=True)
    # After an item of several blocks Python-Markdown sees the next one behind a blank line alone.
    below = [""] if "" in rest or not lines[-1].strip() else []
    return [f"{marker[0].strip()} {first}", *(f"    {line}" if line else "" for line in rest), *below]


def _filled_in(entries: Iterable[Any], folder: Path) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, dict):
            yield {name: below if isinstance(below, str) else list(_filled_in(below, folder))
                   for name, below in entry.items()}  # fmt: skip
        elif "*" in entry:
            found = [path.relative_to(folder).as_posix() for path in folder.glob(entry)]
            yield from (_name_in_site(name) for name in sorted(found, key=_by_number))
        else:
            yield entry


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _name_in_site(name: str) -> str:
    return f"{name.removesuffix('.ipynb')}.md" if name.endswith(".ipynb") else name


def _of_notebook(notebook: File, config: MkDocsConfig) -> Iterator[File]:
    from nbconvert import MarkdownExporter

    assert notebook.abs_src_path is not None
    exporter = MarkdownExporter()  # type: ignore[no-untyped-call]
    name = _name_in_site(notebook.src_uri)
    # Pictures lie in a folder of the notebook's own, as nbconvert's command has it.
    stem = posixpath.basename(name).removesuffix(".md")
    places = {"unique_key": stem, "output_files_dir": f"{stem}_files"}
    text, resources = exporter.from_filename(notebook.abs_src_path, resources=places)
    yield File.generated(config, name, content=text)
    for output, data in resources["outputs"].items():
        yield File.generated(config, posixpath.join(posixpath.dirname(name), output), content=data)


def _picture(found: re.Match[str], page: Page, files: Files) -> str:
    """The picture in both themes, which leads to itself in full; nothing where none was made."""
    there = [theme for theme in ("light", "dark") if files.get_file_from_path(_picture_path(found["name"], theme))]
    root = posixpath.relpath(".", posixpath.dirname(page.file.src_uri) or ".")
    return "\n".join(
        f"[![{found['shows']}]({place}#only-{theme})]({place})"
        for theme in there
        if (place := posixpath.join(root, _picture_path(found["name"], theme)))
    )


def _picture_path(name: str, theme: str) -> str:
    return f"pictures/{name}-{theme}-1280.png"


class _Links(Extension):
    """Gives links and pictures the place that they have in the site."""

    page: str
    files: Files

    def extendMarkdown(self, md: Markdown) -> None:
        """Add what rewrites the links."""
        # Between the inline patterns, which make the links, and MkDocs' own look at them.
        md.treeprocessors.register(_LinksTree(self), "catalog_ext_links", 1)


class _LinksTree(Treeprocessor):
    def __init__(self, links: _Links) -> None:
        self._links = links

    def run(self, root: Element) -> None:
        """Rewrite the links of a page."""
        for element in root.iter():
            for attribute in ("href", "src"):
                if (target := element.get(attribute)) is not None:
                    element.set(attribute, self._in_site(target))

    def _in_site(self, target: str) -> str:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or not parts.path:
            return target
        page = self._links.page
        source = next((above for above, name in _ABOVE.items() if name == page), f"docs/{page}")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
        name = _ABOVE.get(path) or _name_in_site(path.removeprefix("docs/"))
        file = self._links.files.get_file_from_path(name)
        if (path in _ABOVE or path.startswith("docs/") or page == name.split("/")[0]) and file is not None:
            place = posixpath.relpath(name, posixpath.dirname(page) or ".")
        elif (PROJECT / path).exists():
            place = f"{_repository()}/{'tree' if (PROJECT / path).is_dir() else 'blob'}/main/{path}"
        else:
            return target  # MkDocs warns of it
        return f"{place}#{parts.fragment}" if parts.fragment else place


def _repository() -> str:
    described = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    address: str = described["project"]["urls"]["Repository"]
    return address
