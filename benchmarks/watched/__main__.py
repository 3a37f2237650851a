"""Cost of watching a run: with ``--metrics``, scraped every second by a real Prometheus, and without.

    python -m benchmarks.watched --minutes 60              both at the same time, an hour each
    python -m benchmarks.watched --minutes 60 --turns 6    one after the other, in six turns of five minutes each
    python -m benchmarks.watched --minutes 60 --ui         with the live page too, open in a real browser

Fresh orders come as a file each second, the same for both runs. Looked at every second: processor time of the driver
and all that it started (the JVM, workers), memory, and how long each batch took. Prometheus, the browser and the input
are processes of their own, whose costs are not counted. Side by side both runs have the same machine at the same
moment, so minutes are compared in pairs; in turns no run disturbs the other. The first minute is not counted.

Written: watched.json. Exit status 1: watching costs 1 % of a core or 50 MiB, or batches are slower. Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.watched.watching import Feed, Stretch, Watching, differences, growth, stretches, table, verdicts
from servers import prometheus
from servers.browser import executable

ARMS = ("watched", "alone")
_SERVED = 60
"""Seconds in which a run must serve its page."""
_FEWEST = 6
"""Stretches that are compared in pairs where both runs are in progress: minutes, or shorter ones."""


@dataclass
class Taken:
    """The stretches of both runs, and what Prometheus says of its scrapes."""

    stretches: dict[str, list[Stretch]] = field(default_factory=lambda: {arm: [] for arm in ARMS})
    scrapes: list[dict[str, float]] = field(default_factory=list)


def main() -> int:
    """Take the figures, and show them."""
    given = parsed()
    folder, taken = Path(tempfile.mkdtemp(prefix="windbolt-watched-")), Taken()
    try:
        seconds = 60 * given.minutes
        if not given.turns:
            turn(ARMS, seconds, given, folder / "both", taken)
        for number in range(given.turns):
            order = ARMS if number % 2 == 0 else ARMS[::-1]
            for arm in order:
                turn((arm,), seconds / (2 * given.turns), given, folder / f"{number}", taken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return show(taken, given)


def turn(arms: Sequence[str], seconds: float, given: argparse.Namespace, folder: Path, taken: Taken) -> None:
    """Let runs last so long, after a time to warm up, and take their figures."""
    folder.mkdir(parents=True, exist_ok=True)
    metrics, page = free_port(), free_port()
    watched = ["--metrics", str(metrics), *(["--ui", str(page)] if given.ui else [])]
    runs = [Watching(arm, folder / arm, [*engine(given), *(watched if arm == "watched" else [])]) for arm in arms]
    with ExitStack() as stack:
        feed = stack.enter_context(Feed(given.per_second, folder / "draft"))
        for run in runs:
            run.start()
            stack.callback(run.stop)
        feed.folders = [run.inputs for run in runs]
        found = None
        if "watched" in arms:
            found = stack.enter_context(prometheus.server([f"127.0.0.1:{metrics}"]))
            if given.ui:
                stack.enter_context(browser(f"http://127.0.0.1:{page}/"))
        _wait(runs, given.warm_up)
        begin = time.monotonic()
        _wait(runs, seconds)
        end = time.monotonic()
        if found is not None:
            taken.scrapes.append(scrapes(found, seconds))
        feed.folders = []
    for run in runs:
        length = seconds if given.turns else min(60.0, seconds / _FEWEST)
        taken.stretches[run.name] += stretches(run, begin, end, length)


def _wait(runs: Sequence[Watching], seconds: float) -> None:
    """Wait, unless a run ends. RuntimeError where one failed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for run in runs:
            if run.ended:
                run.stop()
                raise RuntimeError(f"the run {run.name!r} has ended")
        time.sleep(min(1.0, max(until - time.monotonic(), 0)))


def engine(given: argparse.Namespace) -> list[str]:
    """The options of both runs."""
    of_spark = ["--master", given.master] if given.engine == "spark" else []
    return ["--engine", given.engine, "--every", given.every, *of_spark]


def scrapes(found: prometheus.Server, seconds: float) -> dict[str, float]:
    """Returns Prometheus' own figures on its scrapes in the last seconds."""
    asked = {
        "scrapes": "count_over_time(up[{0}s])",
        "answered": "sum_over_time(up[{0}s])",
        "milliseconds": "1000 * avg_over_time(scrape_duration_seconds[{0}s])",
        "series": "scrape_samples_scraped",
    }
    told = {name: found.query(text.format(math.ceil(seconds))) for name, text in asked.items()}
    return {name: next(iter(values.values()), math.nan) for name, values in told.items()}


@contextmanager
def browser(url: str) -> Iterator[None]:
    """The page, open in a browser without a screen until the end of the block."""
    from playwright.sync_api import Error, sync_playwright

    path = executable()  # Playwright is asked for its own before it is opened here: it cannot be opened twice
    if path is None:
        raise RuntimeError(
            "--ui needs Chromium or Chrome: install one, as ./run tests does, or set CHROMIUM to its path"
        )
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = chromium.new_page()
        for left in reversed(range(_SERVED)):
            try:
                page.goto(url)
                break
            except Error:
                if not left:
                    raise
                time.sleep(1)
        yield
        chromium.close()


def free_port() -> int:
    """A port of the loopback interface that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


def show(taken: Taken, given: argparse.Namespace) -> int:
    """Print the table, write the file; the exit status."""
    found = differences(taken.stretches["watched"], taken.stretches["alone"])
    judged = verdicts(found)
    said: dict[str, Any] = {
        "options": {name: str(value) for name, value in vars(given).items()},
        "machine": machine(),
        "differences": [asdict(each) for each in found],
        "verdicts": [{"well": well, "text": text} for well, text in judged],
        "scrapes": taken.scrapes,
        "stretches": {arm: [asdict(each) for each in all_of] for arm, all_of in taken.stretches.items()},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "watched.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")
    print(table(found))
    for each in taken.scrapes:
        print(
            f"scraped {each['answered']:.0f} of {each['scrapes']:.0f} times, {each['series']:.0f} series,"
            f" {each['milliseconds']:.1f} ms each"
        )
    for arm in ARMS:
        print(f"memory of the driver, {arm}: {growth(taken.stretches[arm])}")
    for well, text in judged:
        print(f"{'ok' if well else 'NOT OK'}: {text}")
    print(f"written: {given.out / 'watched.json'}")
    return int(not all(well for well, _ in judged))


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.watched", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="what is measured, of all turns together; 60")
    parser.add_argument("--turns", type=int, default=0, help="of each run, one after the other; 0: at the same time")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--master", default="local[1]", help="Spark's, of each run")
    parser.add_argument(
        "--every", default="1100ms", help="the interval of batches; not that of scrapes, which would always meet them"
    )
    parser.add_argument("--per-second", type=int, default=2000, help="events")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds that are not counted")
    parser.add_argument("--ui", action="store_true", help="the live page too, open in a browser")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder of watched.json")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
