"""After rescaling, a run has the output and the accounts of one that always had so many tasks."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.simulation.world.bolts import COLUMNS, ByMethod, Expired, Few, PerUser, Plain, picks, sums
from tests.simulation.world.kinds import JOINS, KINDS, MEETING, PASSING, lagging
from tests.simulation.world.portions import Input
from topologies import RunOptions, TopologyBuilder, run_local, sinks, spouts
from topologies.checkpoints.pairing import PairedCheckpoint
from topologies.checkpoints.rescaling.rescale import move_tasks
from topologies.run.summary import Summary
from topologies.topology import Topology
from windowing import WindowedBolt
from windowing.errors import ConfigError, TopologyError

_MINUTE = 60_000_000


BOLTS: dict[str, Callable[[], WindowedBolt]] = {
    "Plain": Plain, "Few": Few, "Expired": Expired, "PerUser": PerUser, "ByMethod": ByMethod, "sums": sums,
    "picks": picks,
}  # fmt: skip


class Case:
    """A bolt of one kind of windows, and its input, drawn from a seed."""

    def __init__(self, kind: str, bolt: str, seed: int, folder: Path) -> None:
        self.kind, self.bolt, self.seed, self.folder = kind, bolt, seed, folder
        chance = random.Random(f"{kind} {bolt} {seed}")
        self.spouts = ["in", "more"] if kind in JOINS or chance.random() < 0.3 else ["in"]
        if kind == "azure substreams":  # what is late by arrival depends on the tasks, where arrivals go back in time
            self.spouts = ["in"]
        made = Input(random.Random(seed), self.spouts)
        found = [portion for _ in range(4) for portion in made.made()]
        texts = [(name.split("/")[0], text) for portion in found for name, text in portion.files.items() if text]
        self.files = texts[: chance.randint(6, 14)] or [("in", "")]
        self.tasks = [chance.choice([1, 2, 3, 5]), chance.choice([1, 2, 3, 4, 7]), chance.choice([1, 2, 3])]
        self.cuts = sorted(chance.sample(range(len(self.files) + 1), 2))
        self.shape, self.by_key = chance.getrandbits(32), chance.random() < 0.6

    def made(self) -> WindowedBolt:
        """The bolt."""
        chance = random.Random(self.shape)
        if self.kind in {**JOINS, **PASSING}:
            bolt = lagging({**JOINS, **PASSING}[self.kind](chance), chance)
        else:
            bolt = KINDS[self.kind](BOLTS[self.bolt](), chance)
        if self.by_key and not bolt.settings.key and self.kind not in {*JOINS, *PASSING}:
            bolt = bolt.with_key("user")
        return MEETING[chance.choice(sorted(MEETING))](bolt, chance) if len(self.spouts) > 1 else bolt

    def topology(self, folder: Path, tasks: int, rows: dict[int, Counter[str]]) -> Topology:
        """The bolt with so many tasks; ``rows`` takes what it emits, by step."""

        def take(table: pa.Table, step: int) -> None:
            rows.setdefault(step, Counter()).update(sorted(str(sorted(row.items())) for row in table.to_pylist()))

        builder = TopologyBuilder("moved")
        for spout in self.spouts:
            (folder / spout).mkdir(parents=True, exist_ok=True)
            source = spouts.files(str(folder / spout), COLUMNS, format="jsonl", files_per_batch=1)
            builder.set_spout(spout, source)
        declared = builder.set_bolt("b", self.made(), tasks)
        for spout in self.spouts:
            declared = declared.fields_grouping(spout, "at" if self.kind == "Deduplicate" else "user")
        builder.set_sink("out", sinks.foreach_batch(take, frame="arrow")).from_("b")
        return builder.build()


def played(
    case: Case, folder: Path, tasks: list[int], move: Callable[[str, Topology, int], None]
) -> tuple[dict[int, Counter[str]], list[Summary]]:
    """Run in three parts, with these numbers of tasks; ``move`` is called between them with the checkpoint."""
    rows: dict[int, Counter[str]] = {}
    parts: list[Summary] = []
    before = 0
    for number, (tasks_now, upto) in enumerate(zip(tasks, [*case.cuts, len(case.files)], strict=True)):
        topology = case.topology(folder, tasks_now, rows)
        for place in range(before, upto):
            spout, lines = case.files[place]
            (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        clock = itertools.count(1_700_000_000_000_000 + number * 1_000 * _MINUTE, 900_000).__next__
        options = RunOptions(str(folder / "ck"), flush=number == 2, clock=clock)
        if number and tasks_now != tasks[number - 1]:
            move(str(folder / "ck"), topology, tasks_now)
        parts.append(run_local(topology, options))
        before = upto
    return rows, parts


def moving(path: str, topology: Topology, tasks: int) -> None:
    """Rescale, where there is something to move."""
    halves = PairedCheckpoint(path)
    halves.lock()
    if halves.tasks():
        move_tasks(halves, {"b": tasks}, topology)
    halves.release()


def fixed(case: Case) -> list[str]:
    """Why the bolt of a case cannot be moved."""
    from topologies.checkpoints.rescaling.movable import movable

    found = movable(case.topology(case.folder / "look", 2, {}))["b"]
    return [*found.fixed, *found.whole]


CASES = int(os.environ.get("WINDBOLT_RESCALED", "2"))
"""How many topologies of each kind are compared."""

MOVED = sorted({*KINDS, *JOINS, *PASSING})


@pytest.mark.parametrize("kind", MOVED)
def test_from_then_on_the_output_is_that_of_a_run_that_always_had_so_many_tasks(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    tried, seed = 0, -1
    while tried < CASES:
        seed += 1
        assert seed < 40 * CASES or kind in NEVER_MOVED, "nothing was compared"
        if seed >= 40 * CASES:
            break
        case = Case(kind, chance.choice(sorted(BOLTS)), seed, tmp_path / str(seed))
        try:
            if fixed(case):
                continue
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        tried += 1
        check(case)


def check(case: Case) -> None:
    """Compare a run that is rescaled twice with those that always had the last numbers of tasks."""
    got, parts = played(case, case.folder / "moved", case.tasks, moving)
    for part in (1, 2):
        tasks = case.tasks[part]
        whole, always = played(case, case.folder / f"always{part}", [tasks] * 3, moving)
        batches = [sum(summary.batches for summary in always[:each]) for each in (part, part + 1)]
        steps = range(*(2 * number - 1 for number in batches))  # batch b is step 2 b, the closing behind it 2 b + 1
        if part == 2:
            steps = range(steps.start, 10_000)
        for step in sorted({*got, *whole} & {*steps}):
            assert got.get(step, Counter()) == whole.get(step, Counter()), (case.kind, case.bolt, case.seed, step)
    last, right = parts[-1].last, always[-1].last
    assert (last is None) == (right is None)
    if last is not None and right is not None:
        assert last.bolts["b"].accounts == right.bolts["b"].accounts, (case.kind, case.bolt, case.seed)


NEVER_MOVED = {"count by time", "time by count"}
"""Kinds of windows of a task's events whatever their keys, which have no form by key."""
