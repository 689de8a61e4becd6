"""``python -m examples.demo [--keep] [--few-days]``: the main job on real servers and data, leaving nothing running."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from examples.demo.screen import Screen

if TYPE_CHECKING:
    from examples.demo.stage import Stage

_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Run the demonstration; the status for the shell."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C (or KEEP=1)")
    parser.add_argument("--few-days", action="store_true", help="a third of the flights, in a third of the time")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    options = parser.parse_args(arguments)
    # What it would say is shown otherwise: an interrupted call as such, a slow metastore in the repair's report.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("catalog_ext").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, _interrupt)
    screen = Screen()
    try:
        keep = options.keep or os.environ.get("KEEP", "") not in ("", "0")
        return _run(screen, keep=keep, few_days=options.few_days)
    except KeyboardInterrupt:
        screen.say("Interrupted: everything has been stopped.")
        return _INTERRUPTED
    except CatalogExtError as error:
        screen.error(f"{error.message}\n({error.code})")
        _show_traceback(wanted=options.traceback)
    except Exception as error:  # noqa: BLE001 - shown in place of a traceback; the status says that it failed
        screen.error(f"{type(error).__name__}: {str(error)[:1500]}\nRun it with --traceback to see where.")
        _show_traceback(wanted=options.traceback)
    return 1


def _show_traceback(*, wanted: bool) -> None:
    if wanted:
        traceback.print_exc()


def _run(screen: Screen, *, keep: bool, few_days: bool) -> int:
    from examples.demo.stage import open_stage, still_answering
    from examples.demo.story import Story

    started = time.monotonic()
    screen.step("Start an S3 server, a Hive Metastore, the index and Spark")
    with open_stage(screen) as stage:
        ports = stage.ports()
        outcome = Story(stage, screen, few_days=few_days).run()
        outcome.facts.append(("whole demo", f"{time.monotonic() - started:.0f} s"))
        screen.step("Summary")
        screen.table(["what", "result"], outcome.facts)
        for difference in outcome.differences:
            screen.say(f"DIFFERENT: {difference}", "bold red")
        if keep:
            _keep(screen, stage)
    left = still_answering(ports)
    if left:
        screen.say(f"still answering on ports {left}", "bold red")
    else:
        screen.say("Every server has been stopped and the directory removed: it leaves nothing running.", "green")
    return 1 if outcome.differences or left else 0


def _keep(screen: Screen, stage: Stage) -> None:
    from examples.demo.keep import instructions

    instructions(screen, stage)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        screen.say("Stopping …")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
