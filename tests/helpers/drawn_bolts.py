"""Topologies of one bolt, drawn from a seed: they run in three parts, between which something may happen."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from tests.simulation.world.bolts import COLUMNS, ByMethod, Expired, Few, PerUser, Plain, picks, sums
from tests.simulation.world.kinds import JOINS, KINDS, MEETING, PASSING, lagging
from tests.simulation.world.portions import Input
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

_MINUTE = 60_000_000


class Shown(WindowedBolt):
    """Each window: its key, its ends in microseconds, and how many events it holds."""

    outputs = "key string, start long, stop long, events long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        """A row."""
        return str(window.key), window.start_timestamp, window.end_timestamp, len(window)


BOLTS: dict[str, Callable[[], WindowedBolt]] = {
    "Plain": Plain, "Few": Few, "Expired": Expired, "PerUser": PerUser, "ByMethod": ByMethod, "sums": sums,
    "picks": picks,
}  # fmt: skip


def _lagging(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    return lagging(bolt, chance).with_alignment(bounds=chance.choice(["(start, end]", "[start, end)"]))


def _hopping(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    """Windows that overlap, leave gaps, or neither, with a length that is no multiple of the slide."""
    return bolt.with_window(f"{chance.choice([500, 2_500, 7_000])}ms", f"{chance.choice([1_000, 3_000])}ms")


GRIDS: dict[str, Callable[[WindowedBolt, random.Random], WindowedBolt]] = {
    "aligned by starts": lambda b, c: _lagging(_hopping(b, c), c)
    .with_alignment(aligned="starts", offset=c.choice(["0s", "300ms", "-300ms"])),
    "anchored": lambda b, c: _lagging(_hopping(b, c), c)
    .with_alignment(anchor=c.choice([0, 4_700, 1_700_000_000_400, 1_700_000_005_100]))
    .with_alignment(offset=c.choice(["0s", "-300ms"])),
    "anchored at the start, by the clock": lambda b, c: _hopping(b, c)
    .with_alignment(anchor="start", offset=c.choice(["0s", "300ms", "-300ms"])),
    "anchored at the start": lambda b, c: _lagging(_hopping(b, c), c).with_alignment(anchor="start"),
    "closed after their end": lambda b, c: lagging(_hopping(b, c), c).with_alignment(closes_after_end=True),
    "lasting events": lambda b, c: _lagging(_hopping(b, c), c).with_alignment(bounds="[start, end)")
    .with_lifetime("until"),
    "overlapping, idle": lambda b, c: lagging(_hopping(b, c), c).with_watermark(idle_timeout="9s"),
}  # fmt: skip
"""Further kinds of windows, where they begin and how long their events last."""


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
            bolt = {**KINDS, **GRIDS}[self.kind]({**BOLTS, "Shown": Shown}[self.bolt](), chance)
        if self.by_key and not bolt.settings.key and self.kind not in {*JOINS, *PASSING}:
            bolt = bolt.with_key("user")
        return MEETING[chance.choice(sorted(MEETING))](bolt, chance) if len(self.spouts) > 1 else bolt

    def topology(
        self,
        folder: Path,
        tasks: int,
        rows: dict[int, Counter[str]],
        taking: Callable[[pa.Table, int], None] | None = None,
        files_per_batch: int = 1,
    ) -> Topology:
        """The bolt with so many tasks; ``rows`` takes what it emits, by step, or ``taking`` is called with it."""

        def take(table: pa.Table, step: int) -> None:
            rows.setdefault(step, Counter()).update(sorted(str(sorted(row.items())) for row in table.to_pylist()))

        builder = TopologyBuilder("moved")
        for spout in self.spouts:
            (folder / spout).mkdir(parents=True, exist_ok=True)
            source = spouts.files(str(folder / spout), COLUMNS, format="jsonl", files_per_batch=files_per_batch)
            builder.set_spout(spout, source)
        declared = builder.set_bolt("b", self.made(), tasks)
        for spout in self.spouts:
            declared = declared.fields_grouping(spout, "at" if self.kind == "Deduplicate" else "user")
        builder.set_sink("out", sinks.foreach_batch(taking or take, frame="arrow")).from_("b")
        return builder.build()


def played(
    case: Case, folder: Path, tasks: list[int], between: Callable[[str, Topology, int], None]
) -> tuple[dict[int, Counter[str]], list[Summary]]:
    """Run in three parts, with these numbers of tasks; ``between`` is called before the second and the third,
    with the checkpoint, the topology and its number of tasks."""
    rows: dict[int, Counter[str]] = {}
    parts: list[Summary] = []
    before = 0
    for number, (tasks_now, upto) in enumerate(zip(tasks, [*case.cuts, len(case.files)], strict=True)):
        topology = case.topology(folder, tasks_now, rows)
        for place in range(before, upto):
            spout, lines = case.files[place]
            (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        clock = itertools.count(1_700_000_000_000_000 + number * 1_000 * _MINUTE, 900_000).__next__
        options = RunOptions(str(folder / "ck"), keep_open=number != 2, clock=clock)
        if number:
            between(str(folder / "ck"), topology, tasks_now)
        parts.append(run_local(topology, options))
        before = upto
    return rows, parts
