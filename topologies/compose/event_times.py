"""Where the times of a windowed bolt's events come from: a field, an extractor, the bolts before it, or the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.compose.missing_columns import how_to_have
from topologies.compose.mistakes import Mistakes
from topologies.graph.streams import Input, stream_label
from windowing.time.timestamps import is_time

if TYPE_CHECKING:
    from windowing.settings import WindowSettings


@dataclass(frozen=True)
class EventTimes:
    """What the windows of a bolt go by."""

    event_time: bool
    """Event time, or processing time."""
    carried: tuple[bool, ...]
    """Per input: whether its events bring their time along, from a windowed bolt before this one."""


def event_times(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    brings: Sequence[bool],
    mistakes: Mistakes,
) -> EventTimes:
    """The times of bolt ``name``; ``brings``: per input, whether its events have times of a bolt before."""
    nowhere = (False,) * len(inputs)
    if settings.processing_time:
        return EventTimes(False, nowhere)
    if settings.timestamp_extractor is not None:
        return EventTimes(True, nowhere)
    if settings.timestamp_field is not None:
        return EventTimes(True, _without_field(name, settings.timestamp_field, inputs, brings, mistakes))
    without = [stream_label(each.stream) for (each, _), has in zip(inputs, brings, strict=True) if not has]
    if any(brings) and without:
        mistakes.tell(
            f"bolt {name!r} reads streams with event times, and {', '.join(without)} without",
            "a window has one kind of time",
            "call with_timestamp_field, with_timestamp_extractor or with_time(processing=True)",
        )
    return EventTimes(any(brings), tuple(brings))


def _without_field(
    name: str, field: str, inputs: Sequence[tuple[Input, pa.Schema]], brings: Sequence[bool], mistakes: Mistakes
) -> tuple[bool, ...]:
    """Per input: whether its events bring their time along, for they have no such field."""
    for (each, schema), has in zip(inputs, brings, strict=True):
        label = stream_label(each.stream)
        if field in schema.names:
            kind = schema.field(field).type
            if not is_time(kind):
                mistakes.tell(
                    f"bolt {name!r}: timestamp field {field!r} of {label!r} is {kind}",
                    "event times are timestamps, dates, or whole numbers of milliseconds",
                    "name another field, or use with_timestamp_extractor",
                )
        elif not has:
            mistakes.tell(
                f"bolt {name!r}: {label!r} has no timestamp field {field!r}",
                f"it has {', '.join(schema.names)}",
                how_to_have(field, "name another field, or use with_timestamp_extractor"),
            )
    return tuple(has and field not in schema.names for (_, schema), has in zip(inputs, brings, strict=True))
