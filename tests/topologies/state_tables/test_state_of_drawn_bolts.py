"""The tables of a checkpoint's state, of topologies drawn from seeds: they add up, and open windows fire at the end."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.drawn_bolts import BOLTS, GRIDS, Case, played
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.blocking_inputs import WhyReason
from topologies.checkpoints.state_tables import read
from topologies.checkpoints.stored_tasks import StoredState
from topologies.checkpoints.why import why
from topologies.engine.event_times import as_moment
from topologies.topology import Topology
from windbolt import RunOptions, run_local
from windowing.errors import ConfigError, TopologyError
from windowing.timestamps import show

CASES = int(os.environ.get("WINDBOLT_STATES", "2"))
"""How many topologies of each kind are looked at."""

OWN = {"own policies", "own policies by key"}
WITHOUT_ROWS = {"count", "count in event time", "time by count", "count by time", *OWN}
"""Windows of a count of a task's events are not known before they fire, except for those of a key; nor are those of a
user's policies."""
FIRED_ELSE = {"panes", "panes of new events", "snapshots", "lifetimes"}
"""At the end a window fires again only if it has new events, or was not complete; StreamInsight's do not fire then."""
FIRED_AT_THE_END = sorted({*KINDS, *GRIDS} - WITHOUT_ROWS - FIRED_ELSE)
UNCOUNTED = {"lasting events", *OWN}
"""The metric is silent where windows on a grid hold events that last, and where a user's policies decide."""
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


def rows_of(table: pa.Table, *names: str) -> Counter[tuple[Any, ...]]:
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in (table.column(name) for name in names)
    ]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("kind", sampled(FIRED_AT_THE_END, 10, first=1))
def test_open_windows_are_those_that_fire_when_the_streams_end(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path, "Shown"):
        kept = kept_open(case, tmp_path / str(case.seed))
        told = rows_of(read(kept.checkpoint)["windows"], "start", "end", "events")
        fired = kept.fired_at_the_end()
        if kind in BY_TRIGGER:  # the end of such a window is when it fires
            fired = Counter({(row[2],): 0 for row in fired}) + Counter((row[2],) for row in fired.elements())
            told = Counter((row[2],) for row in told.elements())
        assert told == fired, (case.kind, case.seed)


@pytest.mark.parametrize("kind", sampled([kind for kind in FIRED_AT_THE_END if kind not in BY_TRIGGER], 8, first=2))
def test_why_says_which_window_is_next_and_how_many_events_it_holds(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path, "Shown"):
        kept = kept_open(case, tmp_path / str(case.seed))
        following = why(kept.checkpoint, "b")
        found = read(kept.checkpoint)["windows"]
        ends = sorted({end for end in found["end"].cast(pa.int64()).to_pylist() if end is not None})
        asked = {end: why(kept.checkpoint, "b", window=show(end)) for end in ends}
        between = {end + 1: why(kept.checkpoint, "b", window=show(end + 1)) for end in ends if end + 1 not in ends}
        held = Counter[int]()
        for (_, stop, events), number in kept.fired_at_the_end().items():
            held[stop] += events * number
        assert {end: answer.waiting for end, answer in asked.items()} == held, (case.kind, case.seed)
        assert not any(answer.waiting for answer in between.values()), (case.kind, case.seed)
        if following.window_end is None:
            assert not held or following.reason is WhyReason.COUNT, (case.kind, case.seed)
        else:
            assert (following.window_end, following.waiting) == min(held.items()), (case.kind, case.seed)


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *GRIDS, *JOINS, *PASSING} - FIRED_ELSE), 8, first=3))
def test_no_more_windows_fire_at_the_end_than_were_said_to_be_open(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path, "Shown"):
        kept = kept_open(case, tmp_path / str(case.seed))
        assert (kept.open is None) is (kind in UNCOUNTED), (case.kind, case.seed)
        if kept.open is not None:
            fired = kept.fired_at_the_end().total() if "empty" in kind else kept.number_at_the_end()
            assert fired <= kept.open, (case.kind, case.seed)


NEEDS = re.compile(
    r"(?:An event there(?: or at another input)?|"
    r"One of \d+ events there moves the watermark: (\d+) more are needed, the last of them) at (\S+) or later"
)


@pytest.mark.parametrize("kind", sampled([kind for kind in FIRED_AT_THE_END if kind not in BY_TRIGGER], 8, first=4))
def test_the_event_that_would_do_fires_the_window_and_an_earlier_one_does_not(kind: str, tmp_path: Path) -> None:
    for case in drawn(kind, tmp_path, "Shown"):
        folder = tmp_path / str(case.seed)
        answer = why(kept_open(case, folder).checkpoint, "b")
        found = NEEDS.search(" ".join(answer.sentences))
        if found is None or "is needed, as at each" in str(answer) or answer.reason is WhyReason.EMPTY:
            continue
        (holder, *_), missing = answer.holders, int(found[1] or 1)
        at = -(-as_moment(found[2]) // 1000)  # the events have milliseconds
        row = {"user": holder.partition or "user0", "ts": at - 1, "at": at, "until": at + 500, "amount": 1.0}
        for ts, fires in ((at - 1, False), (at, True)):
            rows = [{**row, "id": -number} for number in range(1, missing)]
            longer = replaced(case, holder.input, [*rows, {**row, "id": -missing, "ts": ts}])
            kept = kept_open(longer, folder / f"further-{fires}")
            stops = {row[1] for table in kept.shown for row in rows_of(table, "start", "stop")}
            assert (answer.window_end in stops) is fires, (case.kind, case.seed, str(answer))


def replaced(case: Case, spout: str, rows: list[dict[str, Any]]) -> Case:
    """The case with a further file."""
    longer = copy.copy(case)
    longer.files = [*case.files, (spout, [json.dumps(row) for row in rows])]
    return longer


@dataclass
class KeptOpen:
    """A checkpoint whose windows wait."""

    topology: Topology
    checkpoint: Path
    clock: Callable[[], int]
    shown: list[pa.Table]
    open: int | None
    """How many windows are open at most, as the metric says."""
    fired: int
    """How many have fired already."""

    def number_at_the_end(self) -> int:
        """How many windows fire when the run goes on to its end."""
        summary = run_local(self.topology, RunOptions(str(self.checkpoint), clock=self.clock))
        return 0 if summary.last is None else summary.last.bolts["b"].fired - self.fired

    def fired_at_the_end(self) -> Counter[tuple[Any, ...]]:
        """The windows that hold events and fire when the run goes on to its end: start, end and number of events."""
        self.shown.clear()
        run_local(self.topology, RunOptions(str(self.checkpoint), clock=self.clock))
        fired = sum((rows_of(table, "start", "stop", "events") for table in self.shown), Counter[tuple[Any, ...]]())
        return Counter({row: number for row, number in fired.items() if row[2]})


def kept_open(case: Case, folder: Path) -> KeptOpen:
    """A run over all the input of a case, whose streams stay open."""
    shown: list[pa.Table] = []
    topology = case.topology(folder, case.tasks[0], {}, lambda table, step: shown.append(table))
    for place, (spout, lines) in enumerate(case.files):
        (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    clock = itertools.count(1_700_000_000_000_000, 900_000).__next__
    summary = run_local(topology, RunOptions(str(folder / "ck"), keep_open=True, clock=clock))
    assert summary.last is not None
    last = summary.last.bolts["b"]
    return KeptOpen(topology, folder / "ck", clock, shown, last.open, last.fired)
