"""Runs docs/tutorial.ipynb, and keeps what its cells show, without what differs from run to run and machine to machine.

``python -m docs.tools.tutorial`` (``make tutorial``) writes it; ``tests/integration/clients/test_tutorial.py`` runs it
again and compares. The cells are edited in the notebook itself.
"""

from __future__ import annotations

import getpass
import html
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROJECT = Path(__file__).resolve().parents[2]
TUTORIAL = PROJECT / "docs" / "tutorial.ipynb"
FOLDER = "/home/you/tutorial"
"""What the folder of a run is called in what is kept."""

_TIMEOUT_S = 300
_MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d([ T])\d\d:\d\d:\d\d(\.\d+)?")
_NOISE = re.compile(
    r"^(WARNING: Using incubator|Using Spark's default log4j|Setting default log level|To adjust logging level"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN |\s*$)"
)
"""What every session of Spark says on standard error."""

_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_SIZE = re.compile(r"\d[\d.,]* (B|bytes|[KMGT]iB)\b")
_TAG = re.compile(r"<style>.*?</style>|<[^>]*>", re.DOTALL)


def read_kept() -> Any:  # noqa: ANN401 -- a notebook, of which no types are published
    """Return the tutorial as it is kept."""
    return nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]


def execute(environment: Mapping[str, str]) -> Any:  # noqa: ANN401 -- a notebook, of which no types are published
    """Return the tutorial as a run in a folder of its own leaves it.

    Args:
        environment: Variables of the kernel, beside this process's.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell has failed.
    """
    notebook = read_kept()
    with tempfile.TemporaryDirectory(prefix="catalog-ext-tutorial-") as folder:
        home = {"IPYTHONDIR": f"{folder}/.ipython", "JUPYTER_RUNTIME_DIR": f"{folder}/.jupyter"}
        client = NotebookClient(
            notebook, timeout=_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": folder}},
            record_timing=False,
        )  # fmt: skip
        client.execute(env={**os.environ, **home, "COLUMNS": "120", "LINES": "24", **environment})
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = list(_kept(cell.outputs, os.path.realpath(folder)))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _kept(outputs: Sequence[Any], folder: str) -> Iterator[Any]:
    for output in outputs:
        if output.output_type == "stream":
            lines = _without_place(output.text, folder).splitlines(keepends=True)
            output.text = "".join(line for line in lines if output.name == "stdout" or not _NOISE.match(line))
            if output.text:
                yield output
            continue
        if "data" in output and not any(output.data.values()):
            continue  # A bar that has gone.
        if "data" in output:
            output.data = {kind: _without_place(value, folder) for kind, value in output.data.items()}
        yield output


def _without_place(text: str, folder: str) -> str:
    """Return the text without the folder, the user, the times and the ids of a run."""
    moved = text.replace(folder, FOLDER)
    # A user is a word of its own: in a column of its own, or at the end of a cell's markup.
    user = re.escape(html.escape(getpass.getuser()))
    named = re.sub(rf"(?<=<bdi>){user}(?=</bdi>)|(?<=  ){user}(?=(  |\s*$))", "you", moved, flags=re.MULTILINE)
    return _ID.sub("00000000-0000-4000-8000-000000000000", _MOMENT.sub(r"2025-01-31\g<1>10:00:00", named))


def shown(notebook: Any) -> list[list[str]]:  # noqa: ANN401 -- as above
    """Return what people read in each cell's outputs, without sizes of files, which differ between Sparks."""
    return [[_text(output) for output in cell.get("outputs", [])] for cell in notebook.cells]


def _text(output: Any) -> str:  # noqa: ANN401 -- as above
    if output.output_type == "stream":
        text = output.text
    else:
        text = _TAG.sub(" ", output.data.get("text/html", "")) or output.data["text/plain"]
    return " ".join(_SIZE.sub("some bytes", html.unescape(text)).split())


def main() -> int:
    """Write the notebook."""
    nbformat.write(execute({}), TUTORIAL)  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    sys.exit(main())
