"""The tables of a checkpoint's state, of topologies drawn from seeds: they add up, and open windows fire at the end."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.drawn_bolts import BOLTS, Case, played
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies import RunOptions, run_local
from topologies.state_tables.read_state import read
from topologies.state_tables.stored_state import StoredState
from topologies.topology import Topology
from windowing.errors import ConfigError, TopologyError

CASES = int(os.environ.get("WINDBOLT_STATES", "2"))
"""How many topologies of each kind are looked at."""

WITHOUT_ROWS = {"count", "count in event time", "time by count", "count by time"}
"""Windows of a count of a task's events are not known before they fire; except for those of a key."""
FIRED_ELSE = {"panes", "panes of new events", "snapshots", "lifetimes"}
"""At the end a window fires again only if it has new events, or was not complete; StreamInsight's do not fire then."""
BY_TRIGGER = {"a count of a key", "a rule of a key", "full windows of a key", "daily"}


def drawn(kind: str, folder: Path, bolt: str | None = None) -> list[Case]:
    """Some cases of a kind that can be built."""
    chance, found = random.Random(kind), []
    for seed in itertools.count():
        case = Case(kind, bolt or chance.choice(sorted(BOLTS)), seed, folder)
        try:
            case.topology(folder / "look", 2, {})
            found.append(case)
        except (ConfigError, TopologyError):
            assert seed < 40 * CASES, "nothing was looked at"
        if len(found) == CASES:
            return found
    raise AssertionError


def check_sums(found: StoredState) -> None:
    """Events, tasks and accounts say the same of what is pending and of what is stored."""
    events, accounts = found["events"], found["accounts"]
    by_input = Counter[str | None]()
    for name, number in zip(events["input"].to_pylist(), events["pending"].to_pylist(), strict=True):
        by_input[name] += number
    pending = dict(zip(accounts["input"].to_pylist(), accounts["pending"].to_pylist(), strict=True))
    if None not in by_input:  # sums of several inputs
        assert by_input == Counter(pending)
    assert sum(by_input.values()) == sum(pending.values()) == sum(found["tasks"]["pending"].to_pylist())
    starts = [not waits for waits in events["waits_for_start"].to_pylist()]
    if sum(starts) == sum(events.filter(pa.array(starts, pa.bool_()))["events"].to_pylist()):
        assert sum(starts) == sum(found["tasks"]["stored"].to_pylist())


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *JOINS, *PASSING}), 10, first=4))
def test_what_is_pending_adds_up(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path):

        def look(checkpoint: str, topology: Topology, tasks: int) -> None:
            if Path(checkpoint, "windbolt").is_dir():
                whole = read(checkpoint)
                if whole.batch is None:
                    return
                check_sums(whole)
                parts = [read(checkpoint, "b", task=number)["events"] for number in range(tasks)]
                assert pa.concat_tables(parts, promote_options="default").num_rows == whole["events"].num_rows
                whole.to_json()

        folder = tmp_path / str(case.seed)
        played(case, folder, [case.tasks[0]] * 3, look)
        look(str(folder / "ck"), case.topology(folder, case.tasks[0], {}), case.tasks[0])


def _kept(shown: list[pa.Table], table: pa.Table, step: int) -> None:
    shown.append(table)


def rows_of(table: pa.Table, *names: str) -> Counter[tuple[Any, ...]]:
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in (table.column(name) for name in names)
    ]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("kind", sampled(sorted(set(KINDS) - WITHOUT_ROWS - FIRED_ELSE), 10, first=1))
def test_open_windows_are_those_that_fire_when_the_streams_end(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path, "Shown"):
        folder, fired = tmp_path / str(case.seed), Counter[tuple[Any, ...]]()

        shown: list[pa.Table] = []
        topology = case.topology(folder, case.tasks[0], {}, partial(_kept, shown))
        for place, (spout, lines) in enumerate(case.files):
            (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        clock = itertools.count(1_700_000_000_000_000, 900_000)
        run_local(topology, RunOptions(str(folder / "ck"), flush=False, clock=clock.__next__))
        found = read(folder / "ck")
        shown.clear()
        run_local(topology, RunOptions(str(folder / "ck"), clock=clock.__next__))
        for table in shown:
            fired += rows_of(table, "start", "stop", "events")
        fired = Counter({row: number for row, number in fired.items() if row[2]})
        told = rows_of(found["windows"], "start", "end", "events")
        if kind in BY_TRIGGER:  # the end of such a window is when it fires
            fired = Counter({(row[2],): 0 for row in fired}) + Counter((row[2],) for row in fired.elements())
            told = Counter((row[2],) for row in told.elements())
        assert told == fired, (case.kind, case.seed)
