"""What is in the way of an index: an error that says what, and what to do, in one line and with the right exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

_PIPED: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
_WAIT = "print('loading', flush=True)"


@pytest.fixture
def index(run: Run, without_metastore: Path) -> Path:
    """The index of a project in the working folder."""
    assert run("--index", "lake/.catalog-ext/index.db", "init")[0] == 0
    return without_metastore / "lake" / ".catalog-ext" / "index.db"


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("command", [("tables",), ("init",), ("register", "s.t", "x")], ids=lambda c: c[0])
@pytest.mark.parametrize("folder", ["lake", "lake/.catalog-ext"])
def test_a_folder_in_the_place_of_its_index(run: Run, folder: str, command: tuple[str, ...]) -> None:
    code, _, err = run("--index", folder, *command)
    assert code == 2
    assert "An index is a file, and this is a folder" in err
    assert "Did you mean --index lake/.catalog-ext/index.db?" in err


def test_an_index_below_a_file(run: Run, without_metastore: Path) -> None:
    (without_metastore / "file").write_text("x")
    for place in ("file/index.db", "file/deep/index.db"):
        code, _, err = run("--index", place, "init")
        assert (code, "no folder, or lies below a file" in err) == (2, True), err


def test_a_damaged_file(run: Run, index: Path) -> None:
    index.write_bytes(index.read_bytes()[:5000])
    code, _, err = run("--index", str(index), "tables")
    assert (code, "is damaged" in err, "Restore a copy" in err) == (1, True, True), err


def _as_owner(index: Path, *arguments: str) -> tuple[int, str]:
    """Run the command line as a user whom modes of files bind: root is one without two of its capabilities."""
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    program = [sys.executable, "-m", "catalog_ext.cli.main", "--index", str(index), *arguments]
    ended = subprocess.run([*bound, *program], capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


@contextlib.contextmanager
def _mode(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_folder", "mode", "words"),
    [
        (False, 0o000, "this user may not read and write the file"),
        (True, 0o000, "cannot look into its folder"),
        (True, 0o555, "on the file and its folder, even to read"),
    ],
    ids=["file", "folder", "read only"],
)
def test_what_a_user_may_not_do(index: Path, of_folder: bool, mode: int, words: str) -> None:
    with _mode(index.parent if of_folder else index, mode):
        code, err = _as_owner(index, "tables")
    assert code == 4
    assert words in err


@pytest.mark.slow
def test_where_no_index_can_be_made(index: Path) -> None:
    with _mode(index.parent, 0o555):
        code, err = _as_owner(index.parent / "new.db", "init")
    assert (code, "no file can be made in its folder" in err) == (4, True), err


@pytest.mark.parametrize("command", [("tables",), ("status",), ("repair", "s.t", "--dry-run")], ids=lambda c: c[0])
def test_another_metastore_than_the_index_has(run: Run, working_folder: Path, command: tuple[str, ...]) -> None:
    """Also for a command that does not ask it: the user is in the wrong folder."""
    assert run("--metastore", "none", "init")[0] == 0
    code, out, err = run("--metastore", "thrift://other:9083", *command)
    assert (code, out) == (2, "")
    assert "was made to have no metastore, and was opened with thrift://other:9083" in err
    assert run("--metastore", "none", "tables")[0] == 0


def test_an_index_that_is_locked(run: Run, index: Path) -> None:
    other = sqlite3.connect(index, isolation_level=None)
    with contextlib.closing(other):
        other.execute("BEGIN IMMEDIATE")
        code, _, err = run("--index", f"sqlite:///{index}?timeout=0.2", "register", "s.t", "x", "--create-namespace")
    assert (code, "locked by another process" in err) == (4, True), err


@pytest.fixture
def web_server() -> Iterator[str]:
    """A server that is no metastore, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"thrift://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_is_no_metastore_makes_no_index(run: Run, working_folder: Path, web_server: str) -> None:
    code, out, err = run("--metastore", web_server, "import", "s.t")
    assert (code, out) == (4, "")
    assert "or that is no metastore" in err
    assert list(working_folder.iterdir()) == []


def _piped(index: Path, redirect: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(arguments)
    command = f"{sys.executable} -m catalog_ext.cli.main --index {index} {words} {redirect}"
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_an_output_that_takes_no_more(index: Path, output: str) -> None:
    ended = _piped(index, "> /dev/full", "tables", "-o", output)
    assert ended.returncode == 1
    assert ended.stderr == "error: The output cannot be written: No space left on device. Make room where it goes.\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("command", "code"), [("tables", 0), ("events", 0), ("tabels", 2)])
def test_streams_that_the_caller_has_closed(index: Path, closed: str, command: str, code: int) -> None:
    ended = _piped(index, closed, command)
    assert (ended.returncode, "Unexpected" in ended.stderr) == (code, False), ended.stderr


@pytest.mark.parametrize("command", [None, *COMMANDS])
@pytest.mark.parametrize("width", [80, 40])
def test_help_fits_the_screen_and_its_examples_are_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str | None, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run(*([] if command is None else [command]), "--help")
    assert code == 0
    # Of examples, which are copied, a line is a line.
    assert max(map(len, out.splitlines())) <= 80
    if command is None and width == 80:
        said = out.partition("Commands:\n")[2].partition("Exit codes:")[0].rstrip().splitlines()
        assert [line for line in said if not line.endswith(".") or line.endswith("...")] == []
        assert len(said) == len(COMMANDS)


def test_a_usage_error_is_json_where_that_is_asked_for(run: Run, working_folder: Path) -> None:
    for arguments in (("publish", "-o", "json"), ("tables", "--json", "--columns", "tabel"), ("repair", "--json")):
        code, out, err = run(*arguments)
        error = json.loads(out)["error"]
        assert (code, error["code"], error["retryable"]) == (2, "CATALOG_EXT_INVALID_INPUT", False)
        assert error["message"] in err


def test_a_condition_that_ends_too_soon(run: Run, index: Path) -> None:
    table = index.parents[1] / "t"
    table.mkdir()
    made = ("register", "s.t", str(table), "--key", "k", "--format", "csv", "--schema", "x INT", "--create-namespace")
    assert run("--index", str(index), *made)[0] == 0
    code, _, err = run("--index", str(index), "partitions", "s.t", "--where", "k =")
    assert (code, "an operand is missing. Line 1" in err, "class" in err) == (2, True, False), err


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.06, 0.12, 0.2, 0.35])
def test_an_interruption_while_it_is_loaded_is_no_trace(index: Path, delay_s: float) -> None:
    program = [sys.executable, "-c", f"import catalog_ext.cli.entry as e, sys; {_WAIT}; sys.exit(e.main())"]
    with subprocess.Popen([*program, "--index", str(index), "tables"], stdin=subprocess.PIPE, **_PIPED) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert ("interrupted: " in err) is (process.returncode == 130)
