"""Bolts without windows, as the cases have them: some that look at one event alone, and one that keeps state.

guide, "Groupings, chains, plain bolts" and "Bolts without windows that keep state".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracles.interpreter.values import Json, duration, milliseconds

PASSED = ("id", "k", "q", "v", "ts", "m")
"""The columns that every bolt of the tests passes on."""


@dataclass(frozen=True)
class Row:
    """A row on its way, with its event time if it has one."""

    fields: Json
    time: int | None = None
    place: int | None = None
    """Its place in its source."""
    at: int | None = None
    """When it comes to a bolt with a trigger of keys, if one has emitted it."""


def passed(fields: Json) -> Json:
    return {column: fields.get(column) for column in PASSED}


def renamed(make: list[Any], row: Row) -> Row:
    """An event of a late stream, at the time that it had."""
    fields = {**passed(row.fields), "ts": row.fields["_event_time"], "id": f"{make[1]}:{row.fields['id']}"}
    return Row(fields, place=row.place)


def shifted(make: list[Any], row: Row) -> Row:
    return replace(row, time=None if row.time is None else row.time + duration(make[1]), place=None)


def alone(row: Row) -> Row:
    return replace(row, fields=passed(row.fields))


PLAIN: dict[str, Callable[[list[Any], Row], list[tuple[str, Row]]]] = {
    "filter": lambda make, row: [("default", alone(row))] if row.fields["v"] % make[1] else [],
    "shift": lambda make, row: [("default", shifted(make, row))],
    "sides": lambda make, row: [("odd" if row.fields["v"] % 2 else "default", alone(row))],
    "renamed": lambda make, row: [("default", renamed(make, row))],
}
"""What each makes of an event: rows, with their streams."""

MOST = 3
"""The clock forgets a state that has counted more events than this."""

State = tuple[int, list[Any]]
"""How many events came since it was forgotten, and the ids of the last two."""

INITIAL: State = (0, [])


@dataclass
class Keeping:
    """Counts events, of each key or task; forgets at a value of 0, and by the clock."""

    name: str
    tasks: int
    key: list[str]
    key_by_key: bool
    """Whether it is called with the events of one key after the other."""
    every: int | None
    """Of ``with_clock``, in microseconds."""
    states: dict[tuple[int, tuple[Any, ...]], State] = field(default_factory=dict)
    waiting: list[tuple[int, Row]] = field(default_factory=list)
    """The rows of the batch, each with its task."""
    clock: int | None = None
    received: int = 0
    hears: list[Json] = field(default_factory=list)
    """What it has emitted by the clock, which nothing but a sink reads: the order of keys is not said."""
    told: list[list[Json]] = field(default_factory=list)
    """The states after each batch."""

    def end_batch(self, clock: int) -> Iterator[tuple[str, Row]]:
        """The rows of a batch, with their streams: first of its clock, then of its events; one task after the other."""
        due = self.every and self.clock is not None and clock // self.every > self.clock // self.every
        self.clock, rows, self.waiting = clock, self.waiting, []
        self.received += len(rows)
        for task in range(self.tasks):
            if due:
                self.hear(task, clock)
            mine = [row for of, row in rows if of == task]
            firsts = [self.key_of(row) for row in mine]
            for row in sorted(mine, key=lambda row: firsts.index(self.key_of(row))) if self.key_by_key else mine:
                yield from self.take(task, row)
        known = [(place, state) for place, state in self.states.items() if state != INITIAL]
        self.told.append([{"task": at[0], "key": list(at[1]), "number": of[0], "last": of[1]} for at, of in known])

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.fields.get(name) for name in self.key)

    def take(self, task: int, row: Row) -> Iterator[tuple[str, Row]]:
        place = task, self.key_of(row)
        number, last = self.states.get(place, INITIAL)
        number += 1
        self.states[place] = (number, [*last[-1:], row.fields["id"]]) if row.fields["v"] != 0 else INITIAL
        fields = {**passed(row.fields), "id": f"{self.name}{number}:{row.fields['id']}"}
        for stream in ("default", "odd") if number % 2 else ("default",):
            yield stream, replace(row, fields=fields, place=None)

    def hear(self, task: int, clock: int) -> None:
        """ "For each task, or with a key for each key that has a state"."""
        places = [place for place in self.states if place[0] == task and self.states[place] != INITIAL]
        for place in places if self.key else [(task, ())]:
            number, _ = self.states.get(place, INITIAL)
            name = f"{self.name}!{'+'.join(map(str, place[1]))}:{number}"
            self.hears.append({"id": name, "ts": milliseconds(clock), "v": number})
            if number > MOST:
                self.states[place] = INITIAL
