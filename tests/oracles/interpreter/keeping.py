"""A bolt without windows that keeps state, as the cases have it (guide, "Bolts without windows that keep state")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracles.interpreter.values import Json, milliseconds

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
    waiting: list[tuple[int, Any]] = field(default_factory=list)
    """The rows of the batch, each with its task."""
    clock: int | None = None
    received: int = 0
    told: list[list[Json]] = field(default_factory=list)
    """The states after each batch."""

    def end_batch(self, clock: int) -> Iterator[tuple[str, Any]]:
        """The rows of a batch, with their streams: first of its clock, then of its events; one task after the other."""
        due = self.every and self.clock is not None and clock // self.every > self.clock // self.every
        self.clock, rows, self.waiting = clock, self.waiting, []
        self.received += len(rows)
        for task in range(self.tasks):
            if due:
                self.hear(task, clock)
            mine = [row for of, row in rows if of == task]
            if self.key_by_key:
                firsts = [self.key_of(row) for row in mine]
                mine.sort(key=lambda row: firsts.index(self.key_of(row)))
            for row in mine:
                yield from self.take(task, row)
        self.told.append(
            [
                {"task": task, "key": list(key), "number": number, "last": last}
                for (task, key), (number, last) in self.states.items()
                if (number, last) != INITIAL
            ]
        )

    def key_of(self, row: Any) -> tuple[Any, ...]:
        return tuple(row.fields.get(name) for name in self.key)

    def take(self, task: int, row: Any) -> Iterator[tuple[str, Any]]:
        place = task, self.key_of(row)
        number, last = self.states.get(place, INITIAL)
        number += 1
        self.states[place] = number, [*last[-1:], row.fields["id"]]
        if row.fields["v"] == 0:
            self.states[place] = INITIAL
        names = ("k", "q", "v", "ts", "m")
        fields = {**{each: row.fields.get(each) for each in names}, "id": f"{self.name}{number}:{row.fields['id']}"}
        yield "default", replace(row, fields=fields, place=None)
        if number % 2:
            yield "odd", replace(row, fields=fields, place=None)

    hears: list[Json] = field(default_factory=list)
    """What it has emitted by the clock, which nothing but a sink reads: the order of keys is not said."""

    def hear(self, task: int, clock: int) -> None:
        """ "For each task, or with a key for each key that has a state"."""
        places = [place for place in self.states if place[0] == task and self.states[place] != INITIAL]
        for place in places if self.key else [(task, ())]:
            number, _ = self.states.get(place, INITIAL)
            name = f"{self.name}!{'+'.join(map(str, place[1]))}:{number}"
            self.hears.append({"id": name, "ts": milliseconds(clock), "v": number})
            if number > MOST:
                self.states[place] = INITIAL
