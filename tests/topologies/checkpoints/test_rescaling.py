"""After rescaling, a run has the output and the accounts of one that always had so many tasks."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.drawn_bolts import BOLTS, Case, played
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.topology_fit import stored_task_counts
from topologies.topology import Topology
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError, TopologyError
from windowing.settings.kinds import Hopping


def moving(path: str, topology: Topology, tasks: int) -> None:
    """Rescale, where there is something to move."""
    halves = PairedCheckpoint(path)
    halves.lock.take()
    if stored_task_counts(halves) and stored_task_counts(halves) != {"b": tasks}:
        move_tasks(halves, {"b": tasks}, topology)
    halves.lock.release()


def fixed(case: Case) -> list[str]:
    """Why the bolt of a case cannot be moved."""
    from topologies.graph.bolt_rules import TopologyRules

    found = TopologyRules.of(case.topology(case.folder / "look", 2, {})).bolts["b"]
    return [*found.reasons_not_to_move, *found.reasons_not_to_divide]


CASES = int(os.environ.get("WINDBOLT_RESCALED", "2"))
"""How many topologies of each kind are compared."""

MOVED = sorted({*KINDS, *JOINS, *PASSING})


@pytest.mark.parametrize("kind", sampled(MOVED[1::2], 7))
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


ADDED_UP = [
    *(kind for kind in KINDS if "sessions" in kind), "tumbling by key", "hours", "late by window", "idle",
    "atlas hopping", "azure substreams", "panes",
]  # fmt: skip
"""Kinds of windows that assigners form, and whose events are added up."""


@pytest.mark.parametrize("bolt", ["sums", "picks"])
@pytest.mark.parametrize("kind", sampled(sorted(ADDED_UP), 5))
def test_sums_of_windows_are_moved(kind: str, bolt: str, tmp_path: Path) -> None:
    case = next(case for seed in range(40) if not fixed(case := Case(kind, bolt, seed, tmp_path / str(seed))))
    check(case)


def counts_of_keys(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    slide = chance.randint(2, 5)
    return bolt.with_key("user").with_window(slide * chance.randint(1, 3), slide)


def several_kinds(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    kinds = Hopping("2s", "2s"), Hopping("3s", f"{chance.randint(1, 4)}s")
    return bolt.with_key("user").with_timestamp_field("at").with_window(*kinds)


@pytest.mark.parametrize("bolt", ["sums", "picks"])
@pytest.mark.parametrize("windows", [counts_of_keys, several_kinds])
def test_further_sums_are_moved(
    windows: Callable[[WindowedBolt, random.Random], WindowedBolt],
    bolt: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, "further", windows)
    tried = 0
    for seed in range(60):
        case = Case("further", bolt, seed, tmp_path / str(seed))
        try:
            moves = not fixed(case)
        except TopologyError:
            continue  # drawn with what only event time has
        if moves and tried < 2:
            check(case)
            tried += 1
    assert tried == 2


NEVER_MOVED = {"count by time", "time by count"}
"""Kinds of windows of a task's events whatever their keys, which have no form by key."""
