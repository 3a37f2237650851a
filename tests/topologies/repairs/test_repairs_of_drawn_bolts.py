"""Repaired events of topologies drawn from seeds: a run goes on as if its input had been so from the beginning.

The oracle is such a run. It needs nothing of how events are stored, and nothing of how they are written anew.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.drawn_bolts import BOLTS, Case
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.repair import repair
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import read
from windbolt import RunOptions, run_local
from windowing.errors import ConfigError, DataError, TopologyError

CASES = int(os.environ.get("WINDBOLT_REPAIRS", "1"))
"""How many topologies of each kind are repaired."""
_MINUTE = 60_000_000
_START = 1_700_000_000_000_000
TABLES = ("events", "windows", "keys", "tasks", "accounts", "watermarks")
WITHOUT_STATE = {"Plain", "Few", "Expired", "picks"}
"""Bolts whose rows depend on the window alone."""
AGAIN = {"panes", "panes of new events"}
"""Windows fire more than once, and what they take back is what they have emitted."""
BY_TIME = ["sliding", "atlas hopping", "late by window", "sliding by the clock", "once an id", "WindowJoin, sliding"]
"""Windows overlap, and the time of an event alone decides in which it is."""
BY_AMOUNT = {"a rule of a key", "full windows of a key"}
"""A rule has been called with the amounts: what it made of them stays."""
TOLD_ON_ARRIVAL = {"own policies", "own policies by key"}
"""Policies may have been told of the amounts as the events arrived: what they answered stays too."""
EVERY = sorted({*KINDS, *JOINS, *PASSING})


class Play:
    """A case in two parts; ``change`` makes of a line of the first part another, or none."""

    def __init__(self, case: Case, folder: Path, change: Callable[[str, str], str | None] = lambda spout, line: line):
        self.case, self.folder, self.rows = case, folder, dict[int, Counter[str]]()
        self.topology = case.topology(folder, case.tasks[0], self.rows)
        self.checkpoint = str(folder / "ck")
        self.half = max(len(case.files) // 2, 1)
        for place, (spout, lines) in enumerate(case.files[: self.half]):
            changed = [change(spout, line) for line in lines]
            self._write(place, spout, [line for line in changed if line is not None])
        run_local(
            self.topology, RunOptions(self.checkpoint, keep_open=True, clock=itertools.count(_START, 900_000).__next__)
        )

    def deliver(self) -> None:
        """The files of the second part come."""
        for place, (spout, lines) in enumerate(self.case.files[self.half :], start=self.half):
            self._write(place, spout, lines)

    def rest(self, checkpoint: str) -> tuple[Counter[str], Any]:
        """What comes after the first part, on a checkpoint that holds it; and the accounts at the end."""
        self.rows.clear()
        clock = itertools.count(_START + 1_000 * _MINUTE, 900_000).__next__
        last = run_local(self.topology, RunOptions(checkpoint, clock=clock)).last
        return sum(self.rows.values(), Counter()), last and last.bolts["b"].accounts

    def _write(self, place: int, spout: str, lines: Sequence[str]) -> None:
        (self.folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def cases(kind: str, what: str, folder: Path) -> Iterator[Case]:
    """Cases of a kind that can be built, until enough of them have been tried: the test breaks off."""
    chance = random.Random(f"{what} {kind}")
    for seed in itertools.count():
        if seed > 60 * CASES:
            return
        case = Case(kind, chance.choice(sorted(BOLTS)), seed, folder / str(seed))
        try:
            case.topology(folder / "look", 2, {})
        except (ConfigError, TopologyError):
            continue
        yield case


def stored(checkpoint: str) -> dict[str, Any]:
    found = read(checkpoint, "b")
    return {name: found[name].to_pylist() for name in TABLES if found.tables}


def given_back(checkpoint: str, seed: int) -> Any:
    """The events as they are read: a table, a DataFrame, dicts."""
    table = read(checkpoint, "b")["events"]
    return [table, table.to_pandas(), table.to_pylist()][seed % 3]


def keeps_sums(checkpoint: str) -> bool:
    note = PairedCheckpoint(checkpoint).documents.read("topology")
    return note is not None and note["bolts"]["b"]["sums"] is not None


def saved(checkpoint: str, target: str) -> None:
    halves = PairedCheckpoint(checkpoint)
    halves.lock.share()
    take_savepoint(halves, target)
    halves.lock.release()


@pytest.mark.parametrize("kind", sampled(EVERY, 10))
def test_the_events_as_they_were_make_a_plain_savepoint(kind: str, tmp_path: Path) -> None:
    tried = 0
    for case in cases(kind, "as they were", tmp_path):
        play = Play(case, case.folder)
        before = stored(play.checkpoint)
        if not before or not before["events"] or keeps_sums(play.checkpoint):
            continue
        saved(play.checkpoint, f"{play.checkpoint}-saved")
        repair(play.checkpoint, f"{play.checkpoint}-repaired", {"b": given_back(play.checkpoint, case.seed)})
        assert stored(f"{play.checkpoint}-repaired") == before
        play.deliver()
        assert play.rest(f"{play.checkpoint}-repaired") == play.rest(f"{play.checkpoint}-saved"), (kind, case.seed)
        tried += 1
        if tried == CASES:
            return
    assert tried, "nothing was compared"


def lone_events(case: Case, upto: int) -> set[tuple[str, Any]]:
    """(spout, id) of the events whose id stands once in its input: by that a stored event is found in it."""
    seen = Counter[tuple[str, Any]]()
    for spout, lines in case.files[:upto]:
        for line in lines:
            known = event_of(line)
            seen[spout, known.get("id")] += 1
    return {each for each, number in seen.items() if number == 1 and type(each[1]) is int}


def event_of(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def open_rows(play: Play) -> list[dict[str, Any]]:
    """The stored events that have been in no window, and that can be found in the input."""
    return [row for row in known_rows(play) if row["pending"]]


def known_rows(play: Play) -> list[dict[str, Any]]:
    """The stored events that can be found in the input."""
    if keeps_sums(play.checkpoint):
        return []
    lone = lone_events(play.case, play.half)
    return [row for row in read(play.checkpoint, "b")["events"].to_pylist() if (row["input"], row.get("id")) in lone]


@pytest.mark.parametrize("kind", sampled(EVERY, 10, first=2))
def test_other_values_are_those_of_a_run_that_always_had_them(kind: str, tmp_path: Path) -> None:
    tried = 0
    for case in cases(kind, "other values", tmp_path):
        play = Play(case, case.folder / "repaired")
        later_too = case.bolt in WITHOUT_STATE and kind not in {*AGAIN, *PASSING}
        rows = known_rows(play) if later_too else open_rows(play)
        chosen = random.Random(case.seed).sample(rows, min(len(rows), 3))
        if not chosen:
            continue
        for row in chosen:
            row["corrected"] = corrected(kind, row)
        by_id = {(row["input"], row["id"]): row["corrected"] for row in chosen}
        change = [
            {name: row["corrected"].get(name, row[name]) for name in row if name != "corrected"} for row in chosen
        ]
        repair(play.checkpoint, f"{play.checkpoint}-repaired", {"b": change})

        def changed(spout: str, line: str) -> str:
            known = event_of(line)
            wanted = by_id.get((spout, known.get("id")))  # noqa: B023 - called within this turn
            return line if wanted is None else json.dumps({**known, **wanted})

        always = Play(case, case.folder / "always", changed)
        assert without_rows(stored(f"{play.checkpoint}-repaired")) == without_rows(stored(always.checkpoint))
        play.deliver()
        always.deliver()
        got, wanted = play.rest(f"{play.checkpoint}-repaired"), always.rest(always.checkpoint)
        assert got == wanted, (kind, case.bolt, case.seed)
        tried += 1
        if tried == CASES:
            return
    assert tried, "nothing was compared"


def corrected(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """Other values for columns that do not decide where the event belongs."""
    values: dict[str, Any] = {} if kind == "once an id" else {"id": row["id"] + 100_000}
    if kind not in BY_AMOUNT | TOLD_ON_ARRIVAL and "amount" in row:
        values["amount"] = 50.5
    return values or {"id": row["id"]}


def without_rows(tables: dict[str, Any]) -> dict[str, Any]:
    """Events in some order: those of equal time are stored as they came, and of some kinds by key."""
    return {**tables, "events": sorted(json.dumps({**row, "row": 0}, default=str) for row in tables["events"])}


NEVER = {*BY_AMOUNT, "daily"}
"""Kinds of which nothing can be taken out: a rule has seen it, a timer is kept of its key."""


@pytest.mark.parametrize("kind", sampled(sorted(set(EVERY) - NEVER - AGAIN), 10, first=3))
def test_what_is_taken_out_was_never_there(kind: str, tmp_path: Path) -> None:
    tried = 0
    for case in cases(kind, "taken out", tmp_path):
        play = Play(case, case.folder / "repaired")
        rows = open_rows(play)
        random.Random(case.seed).shuffle(rows)
        for number, row in enumerate(rows[:3]):
            target = f"{play.checkpoint}-{number}"
            try:
                repair(play.checkpoint, target, {}, without={"b": [row]})
            except DataError as error:
                assert "cannot be taken out" in error.what  # noqa: PT017 - the others of this turn are looked at
                assert not Path(target).exists()
                continue
            never = Play(case, case.folder / f"never {number}", without_event(row))
            if time_of(never.checkpoint) != time_of(target) or accounts_of(never) != accounts_of(play, purged=1):
                continue  # it has moved the watermark, by which other events were late
            with_time_of(never.checkpoint, target)
            assert windows_state(target) == windows_state(never.checkpoint), (kind, case.bolt, case.seed, row)
            play.deliver()
            never.deliver()
            got, wanted = play.rest(target), never.rest(never.checkpoint)
            assert got[0] == wanted[0], (kind, case.bolt, case.seed, row)
            tried += 1
            break
        if tried >= CASES:
            return
    assert tried, "nothing was compared"


@pytest.mark.parametrize("kind", sampled(BY_TIME, 8))
def test_what_has_been_in_a_window_is_in_no_later_one(kind: str, tmp_path: Path) -> None:
    tried = 0
    for case in cases(kind, "in a window", tmp_path):
        if case.bolt not in WITHOUT_STATE - {"Expired"}:
            continue  # the last window that fired did so with this event, or for it alone
        play = Play(case, case.folder / "repaired")
        for number, row in enumerate([row for row in known_rows(play) if not row["pending"]][:3]):
            target = f"{play.checkpoint}-{number}"
            repair(play.checkpoint, target, {}, without={"b": [row]})
            never = Play(case, case.folder / f"never {number}", without_event(row))
            if time_of(never.checkpoint) != time_of(target) or accounts_of(never) != accounts_of(play, windowed=1):
                continue
            with_time_of(never.checkpoint, target)
            play.deliver()
            never.deliver()
            assert play.rest(target)[0] == never.rest(never.checkpoint)[0], (kind, case.bolt, case.seed, row)
            tried += 1
            break
        if tried >= CASES:
            return
    assert tried, "nothing was compared"


@pytest.mark.parametrize("kind", sorted(NEVER))
def test_what_cannot_be_taken_out(kind: str, tmp_path: Path) -> None:
    for case in cases(kind, "taken out", tmp_path):
        play = Play(case, case.folder)
        for number, row in enumerate(open_rows(play)):
            target = f"{play.checkpoint}-{number}"
            with pytest.raises(DataError, match="cannot be taken out"):
                repair(play.checkpoint, target, {}, without={"b": [row]})
            assert not Path(target).exists()
            return
    raise AssertionError("nothing was tried")


def without_event(row: dict[str, Any]) -> Callable[[str, str], str | None]:
    def change(spout: str, line: str) -> str | None:
        return None if (spout, event_of(line).get("id")) == (row["input"], row["id"]) else line

    return change


def manifest_of(checkpoint: str) -> tuple[PairedCheckpoint, str, Any]:
    halves = PairedCheckpoint(checkpoint)
    name = f"manifests/{halves.documents.names('manifests')[-1]}"
    return halves, name, halves.documents.read(name)


def time_of(checkpoint: str) -> Any:
    """All that is kept of time: watermarks of the bolt, of inputs, partitions and keys; not how many events there
    were."""
    watermark = manifest_of(checkpoint)[2]["bolts"]["b"]["watermark"]
    for mark in watermark["sources"].get("marks", {}).values():
        mark.pop("counted")
    return watermark, marks_of(checkpoint)


def with_time_of(checkpoint: str, other: str) -> None:
    """Where every so many events have a watermark, what is taken out has been counted, and stays so."""
    halves, name, values = manifest_of(checkpoint)
    values["bolts"]["b"]["watermark"] = manifest_of(other)[2]["bolts"]["b"]["watermark"]
    halves.documents.write(name, values)


def marks_of(checkpoint: str) -> Any:
    return [
        {name: row[name] for name in ("key_hash", "watermark")} for row in read(checkpoint, "b")["keys"].to_pylist()
    ]


def windows_state(checkpoint: str) -> Any:
    """What is kept of windows beside their events, by task; of the first end that is due, a bound is kept."""
    tasks = manifest_of(checkpoint)[2]["bolts"]["b"]["tasks"]
    names = ("settled_count", "accounted", "previous", "open_ends", "open_windows", "last_end")
    return [
        [{name: task["windows"][name] for name in names if name in task["windows"]}, sum(task["accounted"])]
        for task in tasks
    ]


def accounts_of(play: Play, *, purged: int = 0, windowed: int = 0) -> Any:
    """The accounts after the first part, as they would be without so many events that were pending, or in a window."""
    total = Counter[str]()
    for row in read(play.checkpoint, "b")["accounts"].to_pylist():
        total.update({name: number for name, number in row.items() if name != "input"})
    total.subtract({"received": purged + windowed, "pending": purged, "windowed": windowed})
    return {name: number for name, number in total.items() if number}
