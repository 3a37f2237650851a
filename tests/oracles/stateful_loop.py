"""Bolts that keep state without windows, and what they must emit: a plain loop over events, with a dict of states."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pyarrow as pa

from windowing import Emit, StatefulBatchBolt, StatefulBolt, Tuple

Row = dict[str, Any]
COLUMNS = "id long, user string, amount long"
OUTPUTS = {"default": "user string, number long, total double, seen string, last string", "odd": "id long, user string"}
STATE: dict[str, Any] = {"number": int, "total": float, "seen": list, "by": dict, "last": "id long, amount long"}
EMPTY: dict[str, Any] = {"number": 0, "total": 0.0, "seen": [], "by": {}, "last": []}
FORGETS = 0
"""The amount at which a state becomes what it was in the beginning."""


def step(state: dict[str, Any], event: Row) -> tuple[Row, Row | None]:
    """One event; ``last`` is a list of rows here."""
    state["number"] += 1
    state["total"] += event["amount"] / 2
    state["seen"] = [*state["seen"][-2:], event["id"]]
    state["by"][str(event["amount"])] = state["by"].get(str(event["amount"]), 0) + 1
    state["last"] = [*state["last"][-1:], {"id": event["id"], "amount": event["amount"]}]
    odd = {"id": event["id"], "user": event["user"]} if event["id"] % 2 else None
    row = {
        "user": event["user"],
        "number": state["number"],
        "total": state["total"],
        "seen": f"{state['seen']} {sorted(state['by'].items())}",
        "last": str(state["last"]),
    }
    return row, odd


def told(state: dict[str, Any], key: Any, clock: datetime) -> Row | None:
    """The clock: every state says what it has; a long one ends."""
    row = {"user": str(key), "number": -state["number"], "total": state["total"], "seen": str(clock), "last": ""}
    if state["number"] > 3:
        state.update(copy.deepcopy(EMPTY))
    return row


class Kept(StatefulBolt):
    """Events one by one."""

    outputs: ClassVar[Any] = OUTPUTS
    state_types: ClassVar[Any] = STATE

    def execute(self, tuple: Tuple) -> Any:
        """A row for each event, and one for each odd one."""
        state = {**self.state, "last": self.state["last"].to_pylist()}
        row, odd = step(state, dict(tuple.values))
        self._keep(state)
        if tuple["amount"] == FORGETS:
            self.state = self.initial_state()
        return [row] if odd is None else [row, Emit(odd, "odd")]

    def on_clock(self, clock: datetime) -> Any:
        """A row."""
        state = {**self.state, "last": self.state["last"].to_pylist()}
        row = told(state, self.key, clock)
        self._keep(state)
        return row

    def _keep(self, state: dict[str, Any]) -> None:
        self.state.update(state)
        self.state["last"] = pa.Table.from_pylist(
            state["last"], pa.schema([("id", pa.int64()), ("amount", pa.int64())])
        )


class KeptOfTables(StatefulBatchBolt):
    """The same, table by table."""

    outputs: ClassVar[Any] = OUTPUTS
    state_types: ClassVar[Any] = STATE

    def execute(self, batch: pa.Table) -> Any:
        """Rows of each event, in a table for each stream."""
        rows, odds = [], []
        for event in batch.to_pylist():
            state = {**self.state, "last": self.state["last"].to_pylist()}
            row, odd = step(state, event)
            rows.append(row)
            odds += [] if odd is None else [odd]
            Kept._keep(self, state)  # type: ignore[arg-type]
            if event["amount"] == FORGETS:
                self.state = self.initial_state()
        schemas = self.output_schemas()
        return [
            pa.Table.from_pylist(rows, schemas["default"]),
            Emit(pa.Table.from_pylist(odds, schemas["odd"]), "odd"),
        ]

    def on_clock(self, clock: datetime) -> Any:
        """A row."""
        return Kept.on_clock(self, clock)  # type: ignore[arg-type]

    def _keep(self, state: dict[str, Any]) -> None:
        Kept._keep(self, state)  # type: ignore[arg-type]


@dataclass
class PlainLoop:
    """What the bolt must emit: by stream, in order."""

    keyed: bool
    every: int
    """Of ``with_clock``, in microseconds."""
    rows: list[Row] = field(default_factory=list)
    odd: list[Row] = field(default_factory=list)
    states: dict[Any, dict[str, Any]] = field(default_factory=dict)
    clock: int | None = None

    def batch(self, events: Sequence[Row], clock: int) -> None:
        """A batch: first its clock, then its events."""
        due = self.clock is not None and clock // self.every > self.clock // self.every
        self.clock = clock
        if due:
            self._tell(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock))
        for event in events:
            key = event["user"] if self.keyed else None
            state = self.states.setdefault(key, copy.deepcopy(EMPTY))
            row, odd = step(state, event)
            self.rows.append(row)
            self.odd += [] if odd is None else [odd]
            if event["amount"] == FORGETS:
                self.states[key] = copy.deepcopy(EMPTY)

    def _tell(self, now: datetime) -> None:
        keys = [key for key, state in self.states.items() if state != EMPTY] if self.keyed else [None]
        for key in keys:
            row = told(self.states.setdefault(key, copy.deepcopy(EMPTY)), key, now)
            self.rows += [] if row is None else [row]
