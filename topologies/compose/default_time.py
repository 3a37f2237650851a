"""Which time a bolt goes by when it names none: each system has its own answer, and some have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topologies.compose.checks import late_by_window_fits
from topologies.graph.streams import Input, stream_label
from topologies.io.kafka import KafkaSpout
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError
from windowing.settings.rules import Arrival, DefaultTime, LateAction, LateBy
from windowing.time.durations import Duration
from windowing.time.timestamps import is_time

if TYPE_CHECKING:
    from windowing.settings import WindowSettings
    from windowing.settings.presets import Preset

RECORD_TIME = "kafka_timestamp"
"""The column in which a topic's JSON objects have the time of their records."""


def names_no_time(settings: WindowSettings) -> bool:
    """Whether nothing that the user said tells where the time of events comes from."""
    return not settings.reads_timestamps and not settings.processing_time


def with_record_time(spout: object, declared: Preset | None, readers: Sequence[object]) -> object:
    """A spout as these bolts read it: a topic's objects have the time of their records, where a bolt goes by that.

    Like Atlas's ``_ts``, it is a column of the stream then (AT-10). ``declared``: the spout's own time settings.
    """
    usual = None if declared is None else declared.rules.get("default_time")
    wanted = any(
        isinstance(bolt, WindowedBolt)
        and names_no_time(bolt.settings)
        and (bolt.settings.default_time if "default_time" in bolt.settings.given else usual) is DefaultTime.RECORD
        for bolt in readers
    )
    if wanted and isinstance(spout, KafkaSpout) and spout.declared is not None and RECORD_TIME not in spout.metadata:
        return replace(spout, metadata=(*spout.metadata, RECORD_TIME))
    return spout


def without_arrival(settings: WindowSettings) -> WindowSettings:
    """The settings of a bolt that reads only windowed bolts, without the rules by arrival that a preset brings along.

    Arrival is a matter of what comes from outside. Those that the user asks for by name stay, and are refused.
    """
    asked = {rule for rule, _ in settings.asked}
    rules: dict[str, Any] = {"arrival": None, "estimate_arrival": False}
    return replace(settings, **{rule: value for rule, value in rules.items() if rule not in asked})


def settled_time(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    carried: Sequence[bool],
    spouts: Mapping[str, object],
) -> WindowSettings:
    """The settings of bolt ``name`` with the time that its system goes by where none is named.

    ``carried``: which inputs bring the times of a windowed bolt along, which need no other. Raises ConfigError where
    the system has no answer for these inputs.
    """
    if not names_no_time(settings) or all(carried):
        return settings
    match settings.default_time:
        case DefaultTime.RECORD:
            return replace(settings, timestamp_field=_record_time(name, inputs, carried, spouts))
        case DefaultTime.ARRIVAL if settings.arrival_is_time:
            return _by_arrival(settings)
        case DefaultTime.NONE:
            raise ConfigError(
                f"bolt {name!r} has a preset that needs event times, and names none",
                why="StreamInsight has no processing time",
                do="call with_timestamp_field or with_timestamp_extractor",
            )
    return settings


def _record_time(
    name: str,
    inputs: Sequence[tuple[Input, pa.Schema]],
    carried: Sequence[bool],
    spouts: Mapping[str, object],
) -> str:
    """The column with the time at which the broker took a record (AT-10)."""
    found: dict[str, str | None] = {}
    for (each, schema), brings in zip(inputs, carried, strict=True):
        if not brings:
            found[stream_label(each.stream)] = _column_of(spouts.get(each.stream[0]), schema)
    without = [label for label, column in found.items() if column is None]
    if without:
        raise ConfigError(
            f"bolt {name!r} names no time, and {', '.join(map(repr, without))} has no record time",
            why="this preset goes by event time; without a timestamp it takes the time at which the broker took a "
            f"record, on topics of Kafka, or in a column {RECORD_TIME!r} that a bolt behind them passes on",
            do="call with_timestamp_field; or with_time(processing=True) for processing time",
        )
    columns = sorted({column for column in found.values() if column is not None})
    if len(columns) > 1:
        raise ConfigError(
            f"bolt {name!r} names no time, and its inputs have the record time in {' and '.join(map(repr, columns))}",
            why="a bolt reads its time from one column",
            do="rename it in a bolt before, and name it: with_timestamp_field(...)",
        )
    return columns[0]


def _column_of(source: object, schema: pa.Schema) -> str | None:
    if isinstance(source, KafkaSpout) and source.declared is None:
        return "timestamp"
    there = RECORD_TIME in schema.names and is_time(schema.field(RECORD_TIME).type)
    return RECORD_TIME if there else None


def _by_arrival(settings: WindowSettings) -> WindowSettings:
    """The time of an event is that of its arrival, and nothing is early, late or adjusted (AZ-1, AZ-7).

    Arrivals that go back, as several partitions may bring them, keep their time: they are in their windows that are
    open, and late only where none is.
    """
    assert settings.arrival is not None
    by_arrival = replace(
        settings,
        timestamp_field=settings.arrival.field,
        arrival=Arrival(settings.arrival.field, None, Duration(0), LateAction.DIVERT),
        lag=None,
        ahead=Duration(0),
        # An unlimited tolerance estimates nothing; but here none is asked for, and arrival itself is estimated.
        estimate_arrival=settings.estimate_arrival or settings.arrival.late is None,
        late_action=LateAction.DIVERT,
        late_by=LateBy.WINDOW,
        allowed_lateness=Duration(0),
    )
    return by_arrival if late_by_window_fits(by_arrival) else replace(by_arrival, late_by=LateBy.WATERMARK)
