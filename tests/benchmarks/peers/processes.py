"""Runs a contender in its own process, with a limit for each step; one that takes longer is ended and goes on after."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tests.benchmarks.peers.contender import ONCE
from tests.benchmarks.peers.environments import PROJECT, environment_of
from tests.benchmarks.peers.figures import Answers

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 600.0
"""For the start, which downloads jars the first time."""

_END_SECONDS = 60.0
_ERROR = re.compile(r"^(?:[\w$]+\.)*(?P<name>\w+(?:Error|Exception))(?:: (?P<message>.*))?$")
_MODULE = "tests.benchmarks.peers.contender_process"


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds.

    Attributes:
        setup: For what is done once, such as registering.
        run: For one run of a measure.
    """

    setup: float = 600.0
    run: float = 120.0

    def of(self, measure: str) -> float:
        """What one run of the measure may take; the start if it is empty."""
        if not measure:
            return START_SECONDS
        return self.setup if measure in ONCE else self.run


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is measured of whom, on which tree."""

    contender: str
    root: Path
    folder: Path
    partitions: int
    measures: tuple[str, ...]
    limits: Limits


def measure(assignment: Assignment, measured: str) -> Answers:
    """All the measures' figures; a measure that takes too long has a reason instead of a time.

    Raises:
        AssertionError: A result was wrong, or the contender failed; the message has the end of what it said.
    """
    answers = Answers(assignment.contender, assignment.partitions, measured)
    assignment.folder.mkdir(parents=True, exist_ok=True)
    while left := answers.left_of(assignment.measures):
        _run(assignment, left, answers)
    return answers


def _run(assignment: Assignment, measures: tuple[str, ...], answers: Answers) -> None:
    """Runs it until it ends, or until it is ended because a step has taken too long."""
    environment = environment_of(assignment.contender)
    task = {
        "contender": assignment.contender, "root": str(assignment.root), "folder": str(assignment.folder),
        "partitions": assignment.partitions, "measures": measures, "options": environment.options,
    }  # fmt: skip
    errors = assignment.folder / "errors.log"
    with errors.open("ab") as log:
        # Its own session: with it end the JVM and whatever else it has started.
        process = subprocess.Popen(
            [environment.python, "-m", _MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            cwd=PROJECT, env=environment.variables(), start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        lines = _lines_of(process.stdout)
        while True:
            limit = assignment.limits.of(answers.under_way)
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                if not answers.under_way:
                    raise AssertionError(f"{assignment.contender} did not start within {limit:.0f} s") from None
                _give_up(answers, measures, f"it took longer than {limit / 60:.2g} min")
                return
            if line is None:
                break
            answers.take(line)
        if process.wait(_END_SECONDS) != 0 or answers.left_of(measures):
            said = errors.read_text(encoding="utf-8", errors="replace")
            reason = failure(said)
            if not answers.under_way or reason is None:
                where = f"{assignment.contender} with {assignment.partitions:,} partitions"
                raise AssertionError(f"{where} failed at {answers.under_way or 'its start or end'}:\n{said[-4000:]}")
            _give_up(answers, measures, f"failed with {reason}")
    finally:
        _end(process)


def failure(said: str) -> str | None:
    """The error with which a contender ended, from its last lines; None if its result was wrong."""
    errors = [match for line in said.splitlines() if (match := _ERROR.match(line))]
    if not errors or errors[-1]["name"] == "AssertionError":
        return None
    return f"{errors[-1]['name']}: {(errors[-1]['message'] or '')[:120]}".rstrip(": ")


def _give_up(answers: Answers, measures: tuple[str, ...], reason: str) -> None:
    """Notes why what is under way has no figure; without a table nothing else can be measured either."""
    measure = answers.under_way
    answers.give_up(measure, reason)
    if measure == "first":
        for name in answers.left_of(measures):
            answers.give_up(name, f"its first registration failed ({reason})")


def _lines_of(stream: IO[str]) -> queue.Queue[str | None]:
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(ValueError):  # closed, because the process was ended
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, name="contender-lines", daemon=True).start()
    return lines


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
