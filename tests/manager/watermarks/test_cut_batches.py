"""The marks around events do not depend on where batches end, also where events that are turned away, and partitions
that are not known yet, lie on both sides of a cut."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np

from manager.watermarks import ArrivalTimes, EventWatermarks, WatermarkState
from policies.watermarks import NONE
from windowing import presets
from windowing.aggregates import count
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.durations import micros
from windowing.settings import WindowSettings
from windowing.settings.rules import WatermarkCombiner

CASES = 400


def drawn_settings(chance: random.Random) -> WindowSettings:
    """Rules by which silent inputs follow the arrivals of others, with a mark for each partition."""
    late, delay = micros(chance.randint(1, 9)), micros(chance.randint(0, 5))
    rules = presets.azure(late=late, out_of_order=delay, early=None, arrival_field="at")
    combine = chance.choice([WatermarkCombiner.MIN, WatermarkCombiner.MIN, WatermarkCombiner.MAX])
    settings = AggregateBolt(n=count()).with_time(rules).settings
    return replace(settings, watermark_partition="partition", watermark_combine=combine)


def drawn_events(chance: random.Random, parted: list[bool], clock: int) -> ArrivalTimes:
    """Up to eight events that arrive between two times of the clock; some are turned away."""
    rows = chance.randint(1, 8)
    inputs = [chance.randrange(len(parted)) for _ in range(rows)]
    arrived = np.array(sorted(clock + chance.randint(0, 9) for _ in range(rows)))
    heard = np.array([chance.random() < 0.6 for _ in range(rows)])
    return ArrivalTimes(
        arrived - [chance.randint(0, 12) for _ in range(rows)],
        np.array(inputs, np.int8),
        heard & [chance.random() < 0.9 for _ in range(rows)],
        partitions=np.array([chance.randrange(3) if parted[each] else -1 for each in inputs]),
        names=("a", "b", "c"),
        registers_partition=heard,
        arrivals=arrived,
    )


def cut(events: ArrivalTimes, low: int, high: int) -> ArrivalTimes:
    parts = {each.name: getattr(events, each.name) for each in fields(events)}
    taken: dict[str, Any] = {
        name: part[low:high] if isinstance(part, np.ndarray) else part for name, part in parts.items()
    }
    return ArrivalTimes(**taken)


def marks(settings: WindowSettings, streams: list[str], batches: list[ArrivalTimes], most: int) -> list[Any]:
    """The marks around each event, if a batch has at most so many events; and the watermark after each."""
    state, found = WatermarkState(), list[Any]()
    for number, events in enumerate(batches):
        watermarks = EventWatermarks(streams, settings, state)
        for low in range(0, len(events), most):
            around = watermarks.advance_by_events(cut(events, low, low + most), 100 + 10 * number)
            columns = (
                around.source_mark_before,
                around.source_mark_after,
                around.watermark_before,
                around.watermark_after,
            )
            found += zip(*(column.tolist() for column in columns), strict=True)
        watermarks.move_time(109 + 10 * number)
        found.append(state.current)
    return found


def test_marks_do_not_depend_on_where_batches_end() -> None:
    moved = 0
    for seed in range(CASES):
        chance = random.Random(seed)
        settings, parted = drawn_settings(chance), [chance.random() < 0.8 for _ in range(chance.randint(1, 3))]
        streams = [f"s{number}" for number in range(len(parted))]
        batches = [drawn_events(chance, parted, 100 + 10 * number) for number in range(chance.randint(1, 4))]
        whole = marks(settings, streams, batches, 8)
        for most in (1, 2):
            assert marks(settings, streams, batches, most) == whole, f"seed {seed}, {most} events at a time"
        moved += whole[-1] is not None and whole[-1] > NONE
    assert moved > CASES // 2, "most cases have a watermark"
