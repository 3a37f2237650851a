"""The columns that a bare bolt's events have, beside ``id``, and how a scenario's values become theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa

from topologies.io.times import parse_time
from windowing.data.schema import TIMESTAMP
from windowing.errors import ScenarioError
from windowing.settings import WindowSettings
from windowing.settings.kinds import Session
from windowing.time.durations import parse_duration
from windowing.time.timestamps import EARLIEST, LATEST, to_datetime

Column = Literal["time", "gap", "text", "whole", "number", "flag"]
"""What stands in a column: a moment, a duration, a text, a whole number, a number, or whether something is so."""

TYPES = {
    "time": TIMESTAMP,
    "gap": pa.int64(),
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}


def columns_of(rules: WindowSettings) -> dict[str, Column]:
    """The columns that a bolt's settings name, and what stands in each."""
    lifetime, arrival = rules.lifetime, rules.arrival
    named: list[tuple[str | None, Column]] = [
        (rules.timestamp_field, "time"),
        (lifetime.end_field if lifetime else None, "time"),
        (arrival.field if arrival else None, "time"),
        (rules.watermark_field, "time"),
        *((kind.gap_field, "gap") for kind in rules.kinds if isinstance(kind, Session)),
        *((name, "text") for name in rules.key),
        (rules.message_id_field, "text"),
        (lifetime.shape_field if lifetime else None, "text"),
        *((name, "text") for name in (lifetime.edge_key if lifetime else ())),
        (rules.watermark_partition if isinstance(rules.watermark_partition, str) else None, "text"),
    ]
    found: dict[str, Column] = {}
    for name, kind in named:
        if name is not None and name != "id":
            found.setdefault(name, kind)
    return found


def columns_in(events: Iterable[Mapping[str, Any]]) -> dict[str, Column]:
    """All columns of events, for policies that may read any of them. ScenarioError for a value that has no type."""
    found: dict[str, Column] = {}
    for event in events:
        for name, value in event.items():
            if value is None or name == "id":
                continue
            kind = _KINDS.get(type(value))
            if kind is None:
                raise ScenarioError(
                    f"{name}: expected a text, a number, true or false, found {value!r:.60}",
                    why="the policies of the bolt may read all fields of its events",
                )
            known = found.setdefault(name, kind)
            if known != kind:
                found[name] = "number" if {known, kind} == {"whole", "number"} else "text"
    return found


_KINDS: dict[type, Column] = {bool: "flag", int: "whole", float: "number", str: "text"}


def schema_of(rules: WindowSettings, columns: Mapping[str, Column] | None = None) -> pa.Schema:
    """The columns of a bare bolt's events: ``id``, and those that its settings name; or those that are given."""
    chosen = columns_of(rules) if columns is None else columns
    return pa.schema({"id": pa.string(), **{name: TYPES[kind] for name, kind in chosen.items()}}.items())


def cell(kind: Column, value: object) -> Any:
    """What stands in a column as JSON; ScenarioError where it cannot. Times out of the calendar are none."""
    if value is None:
        return None
    match kind:
        case "time":
            moment = moment_of(value)
            return None if moment is None else to_datetime(moment).isoformat()
        case "gap":
            return _milliseconds(value)
        case "whole" | "number" | "flag":
            return value
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ScenarioError(f"expected a text, found {value!r}")


def moment_of(value: object) -> int | None:
    """A time in microseconds; None outside the years 1 to 9999. ScenarioError where it is not a time at all."""
    micros = parse_time(value)
    return micros if EARLIEST <= micros <= LATEST else None


def _milliseconds(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        micros = parse_duration(value).micros
        if micros % 1000 == 0:
            return micros // 1000
    raise ScenarioError(f"expected a duration or milliseconds, found {value!r}", do="write '5s' or 5000")
