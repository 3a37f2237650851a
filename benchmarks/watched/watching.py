"""Runs that are watched: what feeds them, looks at their process, and comparisons of stretches."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import aligned
from benchmarks.machine import cpu_seconds, descendants, own_seconds, status_of

# One run in a process of its own: what it used of the processors and of the memory, and how long its batches took.


SHOP = Path(__file__).with_name("shop.py")
_ROOT = Path(__file__).parents[2]
_END = 120
"""Seconds in which a run must end that is asked to."""


@dataclass(frozen=True)
class Look:
    """The processes of a run at a moment."""

    at: float
    """Seconds on the monotonic clock."""
    cpu: float
    """Seconds of processor time so far, of the driver and of all that it started."""
    driver_cpu: float
    """The same of the driver's process alone."""
    driver_mib: float
    """Resident memory of the driver."""
    own_mib: float
    """Memory of all processes that is not shared with files."""


@dataclass(frozen=True)
class BatchTime:
    """A batch as its report has it."""

    at: float
    """When it was reported, on the monotonic clock."""
    seconds: float
    rows: int


@dataclass
class Watching:
    """A run, looked at once a second until it is stopped."""

    name: str
    folder: Path
    options: Sequence[str] = ()
    """Further options of ``windbolt run``."""
    looks: list[Look] = field(default_factory=list)
    batches: list[BatchTime] = field(default_factory=list)

    def start(self) -> None:
        """Start the run; its input is the folder ``in``."""
        self.inputs.mkdir(parents=True)
        command = [sys.executable, "-m", "windbolt", "run", f"{SHOP}:topology", "--checkpoint", "ck", "--json"]
        paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with open(self.folder / "stderr", "wb") as errors:
            self._process = subprocess.Popen(
                [*command, *self.options],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._look_each_second)]
        for thread in self._threads:
            thread.start()

    @property
    def inputs(self) -> Path:
        """Where its input lies."""
        return self.folder / "in"

    @property
    def ended(self) -> bool:
        """True if its process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the run after the batch in hand. RuntimeError where it failed."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(_END)
        for thread in self._threads:
            thread.join()
        if status:
            said = (self.folder / "stderr").read_text("utf-8", "replace")
            raise RuntimeError(f"the run {self.name!r} failed with status {status}:\n{said[-2000:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "batch" in told and told["rows"]:
                self.batches.append(BatchTime(time.monotonic(), told["seconds"]["total"], told["rows"]))

    def _look_each_second(self) -> None:
        while not self.ended:
            self.looks.append(look(self._process.pid))
            time.sleep(1)


def look(pid: int) -> Look:
    """A process and those below it, now."""
    driver = status_of(pid)
    own = sum(status_of(each).get("RssAnon", 0) for each in [pid, *descendants(pid)])
    cpu, driver_cpu = cpu_seconds(pid), own_seconds(pid)
    return Look(time.monotonic(), cpu, driver_cpu, driver.get("VmRSS", 0) / 2**20, own / 2**20)


# The figures of two runs side by side: what the one that was watched used beyond the other.


MOST_CPU, MOST_MIB = 1.0, 50.0
"""Limits for the cost of watching: percent of a processor core, and memory."""
SLOWER = 2.0
"""Standard errors by which batches have to differ to be called slower."""


@dataclass(frozen=True)
class Stretch:
    """Resources that a run used in one stretch of time, from its first look to its last."""

    seconds: float
    cpu: float
    """Seconds of processor time, of all processes."""
    driver_cpu: float
    batch_ms: float
    """The median of its batches; NaN where there were none."""
    slow_batch_ms: float
    """The 95th percentile of its batches."""
    rows: int
    driver_mib: float
    """At the end."""
    own_mib: float
    """The mean."""


def stretches(run: Watching, begin: float, end: float, length: float) -> list[Stretch]:
    """Whole stretches of so many seconds between two moments of the monotonic clock."""
    found = []
    for number in range(int((end - begin) / length + 0.01)):
        first, last = begin + number * length, begin + (number + 1) * length
        looks = [each for each in run.looks if first <= each.at <= last]
        if len(looks) >= 2:
            found.append(_stretch(run, looks))
    return found


def _stretch(run: Watching, looks: Sequence[Look]) -> Stretch:
    first, last = looks[0], looks[-1]
    batches = [batch for batch in run.batches if first.at <= batch.at <= last.at]
    taken = sorted(1000 * batch.seconds for batch in batches)
    return Stretch(
        seconds=last.at - first.at,
        cpu=last.cpu - first.cpu,
        driver_cpu=last.driver_cpu - first.driver_cpu,
        batch_ms=statistics.median(taken) if taken else math.nan,
        slow_batch_ms=taken[int(0.95 * (len(taken) - 1))] if taken else math.nan,
        rows=sum(batch.rows for batch in batches),
        driver_mib=last.driver_mib,
        own_mib=statistics.fmean(each.own_mib for each in looks),
    )


@dataclass(frozen=True)
class Difference:
    """A figure of both, over stretches that belong together."""

    name: str
    watched: float
    alone: float
    error: float
    """The standard error of the difference; infinite where there is one stretch."""

    @property
    def more(self) -> float:
        """Returns the extra cost of the watched run."""
        return self.watched - self.alone

    @property
    def part(self) -> float:
        """The same as a part of the run alone."""
        return self.more / self.alone if self.alone else math.nan

    @property
    def is_clear(self) -> bool:
        """True if it is more than chance."""
        return self.more > SLOWER * self.error


_FIGURES: tuple[tuple[str, Callable[[Stretch], float]], ...] = (
    ("CPU, % of a core", lambda each: 100 * each.cpu / each.seconds),
    ("CPU of the driver, % of a core", lambda each: 100 * each.driver_cpu / each.seconds),
    ("batch, median, ms", lambda each: each.batch_ms),
    ("batch, 95 %, ms", lambda each: each.slow_batch_ms),
    ("rows a second", lambda each: each.rows / each.seconds),
    ("memory of the driver, MiB", lambda each: each.driver_mib),
    ("memory of all processes, MiB", lambda each: each.own_mib),
)


def differences(watched: Sequence[Stretch], alone: Sequence[Stretch]) -> list[Difference]:
    """The means of each figure, and how sure their difference is, by pairs of stretches."""
    pairs = list(zip(watched, alone, strict=False))
    return [_difference(name, [(figure(one), figure(other)) for one, other in pairs]) for name, figure in _FIGURES]


def _difference(name: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    sure = [(one, other) for one, other in pairs if not math.isnan(one) and not math.isnan(other)]
    if not sure:
        return Difference(name, math.nan, math.nan, math.inf)
    apart = [one - other for one, other in sure]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf
    one, other = (statistics.fmean(each) for each in zip(*sure, strict=True))
    return Difference(name, one, other, error)


def table(found: Sequence[Difference]) -> str:
    """The figures, for people."""
    head = ["", "watched", "alone", "more", "± (standard error)", "in %"]
    rows = [
        [each.name, f"{each.watched:.2f}", f"{each.alone:.2f}", f"{each.more:+.2f}", f"{each.error:.2f}",
         f"{100 * each.part:+.2f}"]
        for each in found
    ]  # fmt: skip
    return aligned(head, rows)


def growth(stretches: Sequence[Stretch]) -> str:
    """The memory of the driver at the end of the first and of the last stretch, in words."""
    return f"from {stretches[0].driver_mib:.1f} to {stretches[-1].driver_mib:.1f} MiB"


def verdicts(found: Sequence[Difference]) -> list[tuple[bool, str]]:
    """Returns a verdict on each cost of watching: True if it is within its limit, and a text."""
    by_name = {each.name: each for each in found}
    cpu, slow = by_name["CPU, % of a core"], by_name["batch, median, ms"]
    memory = by_name["memory of the driver, MiB"]
    return [
        (cpu.more < MOST_CPU, f"processor time: {cpu.more:+.2f} % of a core (less than {MOST_CPU:g} %)"),
        (memory.more < MOST_MIB, f"memory of the driver: {memory.more:+.1f} MiB (less than {MOST_MIB:g} MiB)"),
        (not slow.is_clear, f"batches: {slow.more:+.1f} ms ± {slow.error:.1f} (none slower beyond chance)"),
    ]


# Fresh input: a file of orders each second, the same for all runs that are there.


_USERS = 200


class Feed:
    """Within the block a file is written each second into the folders that ``folders`` lists at the time."""

    def __init__(self, per_second: int, draft: Path) -> None:
        self.folders: Sequence[Path] = ()
        self.files = 0
        self._per_second, self._draft = per_second, draft
        self._random = random.Random(15)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_each_second, daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write_each_second(self) -> None:
        while not self._stop.wait(1 - time.time() % 1):
            self._draft.write_text(self._orders(time.time()), "utf-8")
            for folder in self.folders:
                os.link(self._draft, folder / f"{self.files:06d}.jsonl")  # whole from the moment that it is there
            self._draft.unlink()
            self.files += 1

    def _orders(self, now: float) -> str:
        """Orders of the last second, in order of time."""
        lines = []
        for number in range(self._per_second):
            at = datetime.fromtimestamp(now - 1 + number / self._per_second, UTC)
            user, amount = self._random.randrange(_USERS), self._random.randrange(10_000) / 100
            lines.append(json.dumps({"user": f"user-{user}", "amount": amount, "ts": at.isoformat()}))
        return "\n".join(lines) + "\n"
