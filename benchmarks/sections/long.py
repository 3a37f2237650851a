"""Long runs: their memory, the memory of large state, and the cost of watching a run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from psutil import Process

from benchmarks.contest import (
    MAIN,
    Arm,
    Bench,
    Entry,
    Job,
    Question,
    Session,
    Taken,
    by_itself,
    check_accounts,
    measured,
    say,
    with_project,
)
from benchmarks.events import SEED, Events, InMemory, orders
from benchmarks.questions import out, spout, wired
from servers import browser, prometheus
from servers.processes import cpu_seconds, free_port, memory_of, mib, own_seconds, repeated, tree
from topologies.engine.report import BatchReport
from topologies.spark.running import run_on_spark
from windbolt import RunOptions, TupleWindow, WindowedBolt
from windbolt import Session as Gaps

# Memory, in MiB. Twenty times in a run, the memory of the driver, the JVM and the Python workers is measured: the
# resident set of each without mapped files, and the live part of the JVM's heap after a garbage collection.


LOOKS = 20


class Middle(WindowedBolt):
    """Emits the number of events in a window, and their median."""

    outputs = "n long, middle double"

    def execute(self, window: TupleWindow) -> tuple[int, float]:
        return len(window), float(np.median(window.column("value")))


@dataclass(frozen=True)
class Play:
    """A kind of run: a number of batches, each of two seconds of event time, with keys that follow one another."""

    name: str
    title: str
    batches: int
    rows: int
    """Events per batch."""
    keys: int
    windowed: Callable[[WindowedBolt], WindowedBolt]

    def events(self, part: float = 1.0) -> Events:
        """Returns the events of all batches, or of a part of them."""
        batches = max(4, round(self.batches * part))
        return Events(batches * self.rows, self.keys, self.rows // 2, self.rows, late_ms=0, in_turn=True)


PLAYS = (
    Play("batches", "a file each", 5_000, 200, 1_000, lambda bolt: bolt.with_key("key").with_tumbling_window("10s")),
    Play("dead-keys", "that come once", 40, 50_000, 2_000_000,
         lambda bolt: bolt.with_key("key").with_tumbling_window("1s")),
    Play("live-keys", "whose sessions stay open", 40, 50_000, 1_000_000,
         lambda bolt: bolt.with_key("key").with_window(Gaps("1h"))),
    Play("one-window", "of a bolt that sorts all of it", 20, 250_000, 1_000,
         lambda bolt: bolt.with_tumbling_window("1h")),
)  # fmt: skip


def steady(bench: Bench) -> None:
    """Measures all kinds of runs. Growth counts from a quarter of the run on."""
    questions = {play.name: Question(play.name, play.title) for play in PLAYS}
    for play in PLAYS:
        if questions[play.name] in bench.chosen([*questions.values()]):
            arm = Arm(MAIN, _played(play, bench.session), by_itself)
            bench.contest("steady", [Entry(arm, questions[play.name], play.events(bench.part), play.rows)],
                          "whole run")  # fmt: skip


def _played(play: Play, session: Session) -> Callable[[Job], Taken]:
    def run(job: Job) -> Taken:
        looks: list[dict[str, float]] = []
        reports: list[BatchReport] = []
        every = max(1, job.events.count // play.rows // LOOKS)

        def note(report: BatchReport) -> None:
            reports.append(report)
            if report.batch % every == every - 1 or report.closing:
                looks.append({"batch": report.batch, **memory(session)})
                say(f"{play.name}: {json.dumps(looks[-1])}")

        bolt = play.windowed(Middle().with_timestamp_field("event_time").with_lag("1s"))
        source = spout(job, "event_time timestamp, key int, value double")
        topology = wired(source, bolt, out(job), "key", 2 if "key" in bolt.settings.key else 1)
        spark = session.spark
        with measured() as taken:
            run_on_spark(topology, RunOptions(f"{job.scratch}/checkpoint", on_report=note), spark=spark)
        check_accounts(reports, job)
        quarter, last = looks[len(looks) // 4], looks[-2 if len(looks) > 1 else -1]  # the last batch fires all windows
        names = [name for name in last if name != "batch"]
        grown = {f"{name} grown": round(last[name] - quarter[name], 1) for name in names}
        most = {name: max(look[name] for look in looks) for name in names}
        taken.note = {"seconds": round(taken.seconds), **most, **grown, "looks": looks}
        return taken

    return run


def memory(session: Session) -> dict[str, float]:
    """Returns the memory of the driver, of the JVM, of its heap after a collection, and of all Python workers
    together."""
    jvm: Any = session.spark._jvm
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()

    def own(processes: Sequence[Process]) -> float:
        return mib(sum(memory_of(each.pid).get("RssAnon", 0) for each in processes))

    return {
        "driver": own([Process()]),
        "workers": own(tree(program="python")[1:]),
        "JVM": own(tree(program="java")),
        "heap": mib(runtime.totalMemory() - runtime.freeMemory()),
    }


# Watching: the same run twice at the same time, once watched and once not, over a file of fresh orders each second.
# Both have the same machine at the same time, so minutes are compared in pairs. Prometheus, the browser and the input
# are separate processes, whose costs are not counted.


SHOP = Path(__file__).with_name("shop.py")
PER_SECOND = 2_000
"""Orders per second."""
EVERY = "1100ms"
"""The interval of batches; it differs from that of scrapes, so that they do not always coincide."""
SPARK, LOCAL = ("--engine", "spark", "--master", "local[1]"), ("--engine", "local")
WARM = 60
"""Seconds at the start that are not counted."""
FEWEST = 6
"""Least number of time spans that are compared in pairs: minutes, or shorter ones."""
CPU, MEMORY, BATCH = "CPU, % of a core", "memory of the driver, MiB", "batch, median, ms"
LIMITS = {CPU: 1.0, MEMORY: 50.0}
"""Most additional cost of a watched run."""
SLOWER = 2.0
"""Standard errors by which batches must differ to count as slower."""
Stretch = dict[str, float]
"""Figures of a run in a span of time; NaN without batches."""


@contextmanager
def running(folder: Path, options: Sequence[str]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Runs the topology in a process of its own, until the end of the block. Raises RuntimeError if it failed.

    Yields a function that measures it: seconds of CPU time, bytes of the driver, and batches so far with input.
    """
    (folder / "in").mkdir(parents=True)
    command = [sys.executable, "-m", "windbolt", "run", f"{SHOP}:topology", "--checkpoint", "ck", "--json"]
    printed, errors = folder / "told", folder / "stderr"
    with open(printed, "wb") as out, open(errors, "wb") as err:
        more = ["--every", EVERY, *options]
        process = subprocess.Popen([*command, *more], cwd=folder, env=with_project(), stdout=out, stderr=err)

    def look() -> dict[str, Any]:
        lines = [json.loads(line) for line in printed.read_text("utf-8").splitlines(keepends=True) if line[-1] == "\n"]
        return {
            "at": time.monotonic(),
            "cpu": cpu_seconds(process.pid),
            "driver": own_seconds(Process(process.pid)),
            "bytes": memory_of(process.pid).get("VmRSS", 0),
            "batches": [line for line in lines if line.get("rows")],
        }

    try:
        yield look
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.send_signal(signal.SIGTERM)
    if process.wait(120):
        raise RuntimeError(f"a run failed: {errors.read_text('utf-8', 'replace')[-2000:]}")


def stretch(first: dict[str, Any], last: dict[str, Any]) -> Stretch:
    """Returns the figures between two measurements."""
    batches, seconds = last["batches"][len(first["batches"]) :], last["at"] - first["at"]
    taken = [1_000 * batch["seconds"]["total"] for batch in batches] or [math.nan]
    return {
        CPU: 100 * (last["cpu"] - first["cpu"]) / seconds,
        "CPU of the driver, % of a core": 100 * (last["driver"] - first["driver"]) / seconds,
        BATCH: float(np.median(taken)),
        "batch, 95 %, ms": float(np.percentile(taken, 95)),
        "rows a second": sum(batch["rows"] for batch in batches) / seconds,
        MEMORY: last["bytes"] / 2**20,
    }


def differences(watched: Sequence[Stretch], alone: Sequence[Stretch]) -> dict[str, tuple[float, float, float]]:
    """Returns the means of each figure, and the standard error of their difference, by pairs of time spans."""
    found = {}
    for name in watched[0]:
        pairs = np.array([(one[name], other[name]) for one, other in zip(watched, alone, strict=True)])
        sure = pairs[~np.isnan(pairs).any(axis=1)]
        error = np.diff(sure).std(ddof=1) / math.sqrt(len(sure)) if len(sure) > 1 else math.inf
        means = sure.mean(axis=0) if len(sure) else (math.nan, math.nan)
        found[name] = (float(means[0]), float(means[1]), float(error))
    return found


def watched(bench: Bench) -> None:
    """Measures runs whose metrics a real Prometheus scrapes every second; also with the live page open in a browser."""
    seconds = max(FEWEST, round(3_600 * bench.part))
    asked = Question("orders", f"{PER_SECOND:,} orders a second; watched - alone")
    for name, engine in (("--metrics", SPARK), ("--metrics --ui", SPARK), ("--metrics, local engine", LOCAL)):

        def run(job: Job, shown: str = name, engine: Sequence[str] = engine) -> Taken:
            with measured() as taken:
                found, scraped = side_by_side(job.scratch, engine, seconds, page="--ui" in shown)
            said = {
                each: f"{one:.2f} - {other:.2f} = {one - other:+.2f} ± {error:.2f}"
                for each, (one, other, error) in found.items()
            }
            taken.note = {**said, "scrapes": scraped, "differences": found}
            return taken

        arm = Arm(name, run, by_itself, needs=lacking(page="--ui" in name))
        entry = Entry(arm, asked, InMemory(seconds * PER_SECOND))
        for figure in bench.contest("watched", [entry], "whole run"):
            judge(bench, name, figure.note.get("differences", {}))


def lacking(*, page: bool) -> tuple[str, ...]:
    """Returns the programs that watching needs and that are not available."""
    try:
        prometheus.folder()
    except RuntimeError:
        return ("prometheus",)
    if page and find_spec("playwright") is None:
        return ("playwright",)
    return ("chromium",) if page and browser.executable() is None else ()


def judge(bench: Bench, name: str, found: dict[str, tuple[float, float, float]]) -> None:
    """Records the goals for the cost of watching."""
    for each, limit in LIMITS.items() if found else ():
        one, other, _ = found[each]
        bench.goal("watched", name, f"{each}: at most {limit:g} more", limit, one - other, at_most=True)
    if found:
        one, other, error = found[BATCH]
        text, slower = f"{BATCH}: at most {SLOWER:g} standard errors more", (one - other) / error if error else 0.0
        bench.goal("watched", name, text, SLOWER, None if math.isnan(slower) else slower, at_most=True)


def side_by_side(
    folder: Path, engine: Sequence[str], seconds: int, *, page: bool
) -> tuple[dict[str, tuple[float, float, float]], str]:
    """Runs both side by side for this time, after a warm-up. Returns the differences, and Prometheus' figures about its
    scrapes."""
    metrics, ui = free_port(), free_port()
    shown = ["--metrics", str(metrics), *(["--ui", str(ui)] if page else [])]
    length = min(60.0, seconds / FEWEST)
    with ExitStack() as stack:
        folders = [folder / "watched", folder / "alone"]
        lookers = [stack.enter_context(running(each, [*engine, *more]))
                   for each, more in zip(folders, (shown, []), strict=True)]  # fmt: skip
        stack.enter_context(fed([each / "in" for each in folders], folder / "draft"))
        server = stack.enter_context(prometheus.server([f"127.0.0.1:{metrics}"]))
        if page:
            stack.enter_context(browser.opened(f"http://127.0.0.1:{ui}/"))
        time.sleep(WARM)
        looks = [[look() for look in lookers]]
        for _ in range(int(seconds / length + 0.01)):
            time.sleep(length)
            looks.append([look() for look in lookers])
        asked = ("count_over_time(up[{0}s])", "sum_over_time(up[{0}s])",
                 "1000 * avg_over_time(scrape_duration_seconds[{0}s])")  # fmt: skip
        up, answered, spent = (max(server.query(each.format(seconds)).values(), default=math.nan) for each in asked)
    both = ([stretch(one[at], other[at]) for one, other in pairwise(looks)] for at in (0, 1))
    return differences(*both), f"{answered:.0f} of {up:.0f}, {spent:.1f} ms each"


@contextmanager
def fed(folders: Sequence[Path], draft: Path) -> Iterator[None]:
    """Writes a file with the orders of the last second into all folders, every second."""
    chance, numbers = Random(SEED), count()

    def write() -> None:
        draft.write_text(orders(chance, time.time() - 1, 1, PER_SECOND, users=200), "utf-8")
        number = next(numbers)
        for folder in folders:
            os.link(draft, folder / f"{number:06d}.jsonl")  # complete as soon as it appears
        draft.unlink()

    with repeated(write, 1):
        yield
