"""Bolts and streams that are drawn: every pair of settings by construction, values at their bounds, awkward streams.

The settings are those that ``WindowSettings`` declares with a key for scenario files, the kinds of windows, the key and
the presets. A declared setting that ``VALUES`` lacks fails ``test_every_setting_is_drawn``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tests.oracles.interpreter.values import UNITS, Json, milliseconds, moment

SOURCE = "of the source"
"""In place of a column: an event comes from the partition of its source that it names under ``p``."""

WINDOWS: list[Json] = [
    {"length": "10ms", "tumbling": True}, {"length": "1us", "tumbling": True}, {"length": "10ms", "sliding": "5ms"},
    {"length": "7ms", "sliding": "3ms"}, {"length": "9ms", "sliding": "1ms"}, {"length": "3ms", "sliding": "5ms"},
    {"session": {"gap": "4ms"}}, {"session": {"gap": "4ms", "touching": True}},
    {"session": {"gap": "1us"}}, {"session": {"gap": "3ms", "max_duration": "5ms"}},
    {"session": {"gap": "5ms", "max_duration": "4ms", "touching": True}},
    {"session": {"gap": "4ms", "gap_field": "gap"}},
    {"session": {"gap": "3ms", "gap_field": "gap", "touching": True}}, {"snapshot": True}, {"sliding_log": "5ms"},
    {"sliding_log": "1us"}, {"count_by_start": 1}, {"count_by_start": 3}, {"length": 3, "tumbling": True},
    {"length": 3, "sliding": 2}, {"length": 2, "sliding": 3}, {"length": 1, "sliding": 1}, {"length": 3},
    {"length": "6ms", "sliding": 2}, {"length": 3, "sliding": "5ms"},
    {"calendar": {"unit": "day", "zone": "Europe/Berlin"}},
    {"calendar": {"unit": "day", "zone": "Europe/Berlin", "at": ["02:30", "14:00"]}},
    {"calendar": {"unit": "week", "zone": "America/New_York", "first_day": "sunday"}},
    {"calendar": {"unit": "quarter", "zone": "Asia/Tokyo", "first_month": 2}},
    {"calendar": {"unit": "hour", "zone": "Asia/Kolkata"}},
    {"calendar": {"unit": "day", "zone": "Europe/Berlin", "last": 3}},
    {"calendar": {"unit": "day", "zone": "Europe/Berlin", "at": ["06:00", "18:00"], "last": 3}},
    {"calendar": {"unit": "month", "zone": "UTC", "last": 2}},
    {"calendar": {"unit": "year", "zone": "Asia/Tokyo", "first_month": 4}},
    {"windows": [{"tumbling": "4ms"}, {"hopping": {"length": "6ms", "slide": "3ms"}}]},
    {"windows": [{"tumbling": "5ms"}, {"session": {"gap": "3ms"}}]},
    {"windows": [{"sliding_log": "4ms"}, {"count_by_start": 2}]},
    {"windows": [{"snapshot": True}, {"hopping": {"length": "3ms", "slide": "5ms"}}]},
    {"windows": [{"calendar": {"unit": "day", "zone": "Europe/Berlin"}}, {"session": {"gap": "6h"}}]},
]  # fmt: skip
"""Every kind, with lengths that are multiples of the slide and that are none, with gaps, and at the least values."""

EARLY: list[Any] = [
    1, 2, 5, "3ms", {"event_time": "2ms"}, {"any": [3, {"event_time": "2ms"}]}, {"count": 2, "once": True},
    {"all": [2, "2ms"]},
]  # fmt: skip
LATE: list[Any] = [True, 2, "2ms", {"all": [2, {"event_time": "1us"}]}, {"any": [3, "4ms"], "once": True}]
PANES: list[Json] = [
    *({"early": early, **more} for early in EARLY for more in ({}, {"mode": "discarding"}, {"closes": True})),
    *({"early": early, "closes": True, "mode": "discarding"} for early in EARLY[:3]),
    {"early": 3, "closes": True, "at_end": 2},
    *({"late": late, **more} for late in LATE for more in ({}, {"mode": "discarding"})),
    *({"early": early, "late": late} for early in EARLY[:3] for late in LATE[:3]),
    *({"at_end": 2, **more} for more in ({}, {"early": 1}, {"late": True}, {"early": 3, "late": 2})),
    {"early": {"event_time": "3ms", "even_unchanged": True}},
    {"early": {"event_time": "1us", "even_unchanged": True}, "late": True},
    {"early": {"clock": "3ms", "even_unchanged": True}},
    {"early": {"any": [3, {"clock": "2ms", "even_unchanged": True}]}, "late": 2},
    {"late": {"clock": "2ms", "even_unchanged": True}},
    {"early": 2, "late": {"event_time": "2ms", "even_unchanged": True}},
]
"""Each trigger before the end and each after it, alone and together, and all that a firing may do with a window."""

FLAGS = (
    "processing_time", "imports_beside", "estimate_arrival", "late_by_session", "late_per_input", "closes_after_end",
)  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "key": [["k"], ["k", "q"]],
    "substreams": [["k"]],
    "preset": [
        "storm",
        {"atlas": {"allowed_lateness": "0s"}},
        {"storm": {"lag": "2ms"}},
        {"atlas": {"allowed_lateness": "4ms"}},
        {"atlas": {"allowed_lateness": "1ms", "idle_timeout": "4ms", "idle_rule": "max_remaining"}},
        {"atlas": {"idle_timeout": "3ms", "partition_idle_timeout": "2ms"}},
        {"streaminsight": {}},
        {"streaminsight": {"every": 2, "delay": "2ms", "policy": "adjust", "to_infinity": True}},
        {"streaminsight": {"delay": "3ms", "policy": "error"}},
        {"streaminsight": {"every": "3ms", "delay": "-2ms"}},
        {"streaminsight": {"every": None, "field": "cti", "policy": "adjust"}},
        {"streaminsight": {"imports": {"s2": "s1"}, "to_infinity": True}},
        "strictly_increasing_start_time",
        "increasing_start_time",
        {"azure": {"late": "6ms", "out_of_order": "2ms", "early": "5ms", "arrival_field": "at"}},
        {"azure": {"late": None, "out_of_order": "0s", "action": "drop", "arrival_field": "at"}},
        {"azure": {"late": "5ms", "early": "4ms"}},
        {"azure": {"late": "9ms", "out_of_order": "6ms", "action": "error", "arrival_field": "at"}},
        {"azure": {"late": -1, "early": None, "out_of_order": "3ms"}},
    ],
    "lag": ["0s", "1us", "3ms", "20ms"],
    "watermark_interval": ["1us", "1s"],
    **{name: [True] for name in FLAGS},
    "watermark_every": [1, 2, "1us", "4ms"],
    "watermark_field": ["cti"],
    "watermark_partition": ["p", SOURCE],
    "watermark_combine": ["max"],
    "imports": [{"s2": "s1"}],
    "idle_timeout": ["0s", "3ms", "1s"],
    "idle_rule": ["max_remaining"],
    "partition_idle_timeout": ["1us", "2500us", "1s"],
    "arrival": [
        {"field": "at", "early": "4ms"},
        {"field": "at", "late": "0s", "action": "adjust"},
        {"field": "at", "early": "0s", "late": "5ms", "action": "drop"},
        {"late": "5ms", "action": "divert"},
        {"field": "at", "late": "4ms", "action": "error"},
        {"field": "at", "early": "4ms", "late": "3ms"},
    ],
    "late_by": ["window"],
    "allowed_lateness": ["1us", "3ms", "12ms", "1d"],
    "late": ["drop", "adjust", "cut", "error"],
    "late_stream": ["late"],
    "message_id_field": ["m"],
    "panes": PANES,
    "empty_windows_until": ["10ms", "1s"],
    "listed_keys": [
        {"keys": ["a", "z"], "since": 0},
        {"keys": ["b"], "since": -10},
        {"keys": [None, "a"], "since": 5},
        {"keys": [["a", "a"], ["a", "z"]], "since": 0},
        {"keys": [["b", "a"], ["b", None]], "since": 4},
    ],
    "bounds": ["(start, end]", "[start, end)"],
    "aligned": ["starts"],
    "offset": ["1us", "-2ms", "12ms"],
    "anchor": ["start", 0, 4],
    "longest_window": ["10d"],
    "end_field": ["until"],
    "shape_field": ["shape"],
    "edge_key": [["k"], ["q"], ["k", "q"]],
    "output_time": ["window start", "window last"],
    "output_watermark": ["window start", "window end"],
    "close_fires": [False],
}
"""Values of each setting beside its default, those at its bounds among them."""

NEEDS: dict[str, Json] = {
    "imports_beside": {"imports": {"s2": "s1"}},
    "idle_rule": {"idle_timeout": "3ms"},
    "allowed_lateness": {"late_by": "window"},
    "late_by_session": {"late_by": "window"},
    "estimate_arrival": {"arrival": {"field": "at", "late": "5ms"}},
    "listed_keys": {"empty_windows_until": "10ms", "key": ["k"]},
    "shape_field": {"end_field": "until"},
    "edge_key": {"end_field": "until", "shape_field": "shape"},
}
"""What a setting is drawn with, since it changes nothing alone."""

SEVERAL = ("imports", "imports_beside", "watermark_combine", "partition_idle_timeout", "late_per_input")
"""Settings that are drawn with several inputs."""


def pairs() -> list[tuple[str, ...]]:
    """All settings alone, and all pairs of them."""
    names = sorted(VALUES)
    return [*((name,) for name in names), *itertools.combinations(names, 2)]


GROUPS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("panes", "late_by", "allowed_lateness"),
     ("late_by_session", "watermark_every", "key", "lag", "bounds", "late", "processing_time", "idle_timeout")),
    (("panes", "late_by"),
     ("allowed_lateness", "late_by_session", "watermark_every", "key", "lag", "message_id_field", "close_fires")),
    (("watermark_partition",),
     ("partition_idle_timeout", "late_per_input", "imports", "imports_beside", "watermark_combine", "watermark_every",
      "lag", "late", "late_by", "watermark_field", "arrival", "estimate_arrival", "preset")),
    (("idle_timeout",),
     ("idle_rule", "partition_idle_timeout", "arrival", "estimate_arrival", "watermark_interval", "late_by",
      "allowed_lateness", "late_by_session", "empty_windows_until", "key", "panes")),
    ((),
     ("bounds", "aligned", "offset", "anchor", "closes_after_end", "end_field", "empty_windows_until", "listed_keys",
      "key", "late_by", "allowed_lateness", "close_fires", "watermark_every", "processing_time")),
    (("message_id_field",),
     ("key", "substreams", "late_by", "allowed_lateness", "watermark_every", "late", "end_field", "preset",
      "idle_timeout")),
    (("late_by",),
     ("allowed_lateness", "late_by_session", "watermark_every", "key", "lag", "late", "arrival", "substreams",
      "bounds")),
    (("end_field", "shape_field"),
     ("edge_key", "preset", "late_per_input", "imports", "watermark_field", "watermark_every", "late", "late_by",
      "allowed_lateness", "key", "lag", "close_fires", "bounds", "watermark_combine")),
]  # fmt: skip
"""Settings whose rules meet: several of them at once change what becomes of one event. The first ones are always
drawn."""


def pair_of_settings(random: Random, names: tuple[str, ...]) -> Iterator[Json]:
    """Bolts with these settings, first among others, then more and more by themselves."""
    for extras in (2, 1, 0, 0, 0, 0):
        yield with_settings(random, names, random.sample(sorted(VALUES), extras))


def group_of_settings(random: Random) -> Iterator[Json]:
    """Bolts with many settings of one group, then with fewer and fewer."""
    core, others = random.choice(GROUPS)
    for size in (4, 3, 3, 2, 2, 1, 1, 1):
        yield with_settings(random, (*core, *random.sample(others, size)), ())


def with_settings(random: Random, names: Sequence[str], extras: Sequence[str]) -> Json:
    """A bolt with these settings, and with what they need."""
    bolt: Json = {}
    for name in (*extras, *names):
        bolt |= NEEDS.get(name, {})
    for name in (*extras, *names):
        bolt[name] = random.choice(VALUES[name])
    if "listed_keys" in bolt:  # with as many values as the key has columns
        columns = len(bolt["key"]) if "key" in names else random.choice([1, 2])
        bolt["key"] = bolt["key"] if "key" in names else VALUES["key"][columns - 1]
        bolt["listed_keys"] = random.choice([each for each in VALUES["listed_keys"] if width(each) == columns])
    if "late" in bolt.get("panes", {}) and "processing_time" not in bolt:
        bolt = {"late_by": "window", "allowed_lateness": "3ms"} | bolt
    if "processing_time" not in bolt:
        bolt["timestamp_field"] = "ts"
    elif random.random() < 0.5:
        del bolt["processing_time"]
    made = {**random.choice([each for each in WINDOWS if fits(each, bolt)] or WINDOWS), **bolt}
    return {"bounds": "[start, end)"} | made if "snapshot" in made and "end_field" in made else made


def width(listed: Json) -> int:
    """Of how many columns listed keys are."""
    return len(listed["keys"][0]) if isinstance(listed["keys"][0], list) else 1


def fits(kind: Json, bolt: Json) -> bool:
    """Leaves out what is always refused, so that more is held."""
    aligned = "length" in kind and isinstance(kind["length"], str) and not isinstance(kind.get("sliding"), int)
    if "end_field" in bolt and (
        kind.get("length") == "1us" or not (aligned or "calendar" in kind or "snapshot" in kind)
    ):
        return False  # a life has thousands of such windows, or they are refused
    if "late_by_session" in bolt:
        return "session" in kind and "closes" not in str(bolt)
    if "panes" in bolt and not (aligned or "calendar" in kind or "hopping" in str(kind)):
        return "session" in kind and "closes" not in str(bolt)
    if "idle_timeout" in bolt and {int} & {type(kind.get(name)) for name in ("length", "sliding")}:
        return False
    if {"empty_windows_until", "listed_keys"} & set(bolt):
        return (aligned and kind["length"] != "1us") or ("calendar" in kind and "since" not in str(bolt))
    if "aligned" in bolt:
        return aligned and kind.get("sliding") in ("3ms", "5ms") and kind["length"] != "10ms"
    if "allowed_lateness" in bolt and not aligned:
        return "session" in kind or "calendar" in kind or "sliding_log" in kind
    if {"offset", "anchor"} & set(bolt):
        return aligned or "windows" in kind or kind.get("sliding") == "5ms"
    return True


def without_steps(random: Random, bolt: Json) -> Json:
    """A bolt with its inputs and partitions, and no events yet."""
    streams = ["s1"]
    if any(each in str(bolt) for each in SEVERAL) or random.random() < 0.25:
        streams = ["s1", "s2"] if "imports" in str(bolt) or random.random() < 0.7 else ["s1", "s2", "s3"]
    made: Json = {"name": "drawn", "bolt": bolt, "streams": streams, "steps": []}
    by_default = "watermark_partition" not in bolt and any(
        name in str(bolt.get("preset")) for name in ("atlas", "azure")
    )
    if bolt.get("watermark_partition") == SOURCE or (by_default and random.random() < 0.3):
        made["bolt"] = {name: value for name, value in bolt.items() if name != "watermark_partition"}
        made["meta"] = {"source": {stream: partitions_of(random) for stream in streams}}
    elif "watermark_partition" in bolt and random.random() < 0.5:
        made["partitions"] = random.choice([["x", "y"], ["x"], {"s1": ["x", "y"]}])
    return made


def partitions_of(random: Random) -> dict[str, int]:
    """The partitions of an input, each with the first batch whose plan has it: all at once, or one of them later."""
    return random.choice([{"x": 0}, {"x": 0, "y": 0}, {"x": 0, "y": 0, "z": 0}, {"x": 0, "y": 1}, {"x": 0, "z": 3}])


def scale_of(bolt: Json) -> int:
    """The unit of a stream's times in milliseconds: windows of the calendar are longer."""
    return 10_000_000 if "calendar" in bolt or "calendar" in str(bolt.get("windows")) else 1


def steps(random: Random, bolt: Json, streams: list[str]) -> Iterator[Json]:
    """A stream: ties, disorder, jumps, nulls, several inputs, partitions and keys; and in some streams many times at
    the very distances that the bolt's settings name."""
    scale = scale_of(bolt) * 1000
    now = random.choice([0, 0, -7, 100, random.choice([171_175, 171_191]) if scale > 1000 else 3]) * scale
    by_clock = "timestamp_field" not in bolt
    clocks = by_clock or random.random() < 0.4 or needs_clock(bolt)
    clock, calm = now, random.random()
    ticking, pointed = random.choice([0.1, 0.3, 0.6]), random.choice([0, 0, 0.3, 0.6])
    keys: list[Any] = random.choice([["a", "a", "b", None], ["a", "b"], ["a"], ["a", "b", "c", "d"]])
    spans, times = spans_of(bolt), [now]
    edges: list[tuple[Json, str]] = []
    for number in range(random.choice([3, 8, 8, 14, 22])):
        now += random.choice([0, 0, 1, 1, 2, 3, 5] if random.random() < 0.93 else [20, 60]) * scale
        back = random.choice([0, 0, 1, 3, 6, 12]) * scale if random.random() > calm * 0.8 else 0
        time = now - back
        if random.random() < pointed:
            time = at_a_distance(random, spans, times[-6:])
            now = max(now, time)
        times.append(time)
        event: Json = {"id": f"e{number}", "ts": milliseconds(time)}
        if random.random() < 0.06:
            event["ts"] = None
        if random.random() < 0.1 and event["ts"] is not None and scale == 1000:
            event["ts"] = milliseconds(time + random.choice([1, -1]))
        fill(random, event, bolt, time, scale, keys)
        if "'cti'" in str(bolt) and random.random() < 0.25:
            event["cti"] = milliseconds(now - random.choice([0, 2, 5]) * scale)
        step: Json = {"event": event}
        stream = random.choice(streams)
        if "shape_field" in bolt:
            stream = with_shape(random, event, edges, stream, now, scale)
            if "idle_timeout" in str(bolt) or "substreams" in bolt:  # what becomes of edges there is not said yet
                event["shape"] = "point" if event.get("until") is None else "interval"
        if len(streams) > 1:
            step["stream"] = stream
        if clocks:
            clock += random.choice([0, 0, 0, 1, 2, 6]) * scale
            if random.random() < pointed / 2:
                clock = max(clock, at_a_distance(random, spans, [clock, time]))
            step["clock" if by_clock or random.random() < 0.6 else "arrival"] = milliseconds(clock)
        yield step
        if random.random() < ticking:
            yield {"tick": "watermark"}
        if clocks and random.random() < 0.12:
            clock += random.choice([0, 1, 4, 15]) * scale
            if random.random() < pointed:
                clock = max(clock, at_a_distance(random, spans, [clock, *times[-3:]]))
            yield {"clock": milliseconds(clock)}
        if random.random() < 0.06:
            yield {"crash": True}
    if random.random() < 0.5:
        yield {"tick": "watermark"}
    if random.random() < 0.7:
        yield {"close": True}


def with_numbers(random: Random, made: Json) -> Json:
    """The same, some of them with numbers as keys."""
    names = (*(made["bolt"].get("key") or ()), *(made["bolt"].get("substreams") or ()))
    if names and "listed_keys" not in made["bolt"] and random.random() < 0.3:
        for event in (step["event"] for step in made["steps"] if "event" in step):
            event |= {name: "abcd".index(event[name]) - 1 for name in names if name in event}
    return made


def spans_of(bolt: Json) -> list[int]:
    """The durations that a bolt's settings name, in microseconds."""
    hour = 3_600_000_000
    if scale_of(bolt) > 1:
        return [hour, 24 * hour, 7 * 24 * hour]
    found = {int(number) * UNITS[unit] for number, unit in re.findall(r"'(\d+)(us|ms)'", str(bolt))}
    return sorted(found) or [1000]


def at_a_distance(random: Random, spans: list[int], times: list[int]) -> int:
    """A time as far from another one, or from 1970, as one or two settings say; or a microsecond beside that."""
    span = random.choice(spans)
    other = random.choice(times)
    near = random.choice([other + span, other - span, other + span, other // span * span, -(-other // span) * span])
    if random.random() < 0.3:
        near += random.choice([1, -1]) * random.choice(spans)
    return near + random.choice([0, 0, 0, 0, 1, -1])


def needs_clock(bolt: Json) -> bool:
    names = {"idle_timeout", "partition_idle_timeout", "estimate_arrival", "watermark_interval"}
    arrival = bolt.get("arrival")
    by_arrival = arrival is not None and "field" not in arrival
    by_clock = by_arrival or "azure" in str(bolt) or "ms" in str(bolt.get("panes", ""))
    return by_clock or any(name in str(bolt) for name in names)


def fill(random: Random, event: Json, bolt: Json, time: int, scale: int, keys: list[Any]) -> None:
    """The columns that settings name."""
    for name in dict.fromkeys(name for named in ("key", "substreams", "edge_key") for name in bolt.get(named) or ()):
        value = random.choice(keys)
        if value is not None:
            event[name] = value
    if "watermark_partition" in bolt:
        event["p"] = random.choice(["x", "x", "y", "z"])
    text = str(bolt)
    if "'at'" in text:
        event["at"] = milliseconds(time + random.choice([0, 0, 0, 1, 3, 5, 6, 9, -2, -4, -5]) * scale)
    if "message_id_field" in bolt and random.random() < 0.8:
        event["m"] = random.choice(["1", "2", "3", "4"])
    if "end_field" in bolt:
        event["until"] = milliseconds(time + random.choice([1, 2, 2, 4, 9, 30]) * scale)
        if random.random() < 0.08 and "idle_timeout" not in text:
            event["until"] = random.choice([None, "9999-12-31T00:00:00Z"])
    if "gap_field" in text:
        event["gap"] = random.choice([1, 4, 9])


def with_shape(random: Random, event: Json, edges: list[tuple[Json, str]], stream: str, now: int, scale: int) -> str:
    """An event of some shape, often the other half of an edge before it; and the stream that it comes on."""
    event["shape"] = random.choice(["point", "interval", "start_edge", "start_edge", "end_edge", "end_edge"])
    if random.random() < 0.02:
        event["shape"] = "edge"
    if edges and random.random() < 0.6:
        twin, stream = random.choice(edges[-4:])
        event |= {name: twin[name] for name in ("ts", "k", "q") if name in twin}
        event["shape"] = "end_edge" if twin["shape"] == "start_edge" else "start_edge"
    if "edge" in event["shape"] and event["ts"] is not None:
        edges.append((event, stream))
    if event["shape"] == "end_edge":
        ended = now + random.choice([-6, -3, -1, 0, 0, 1, 2, 4, 30]) * scale
        event["until"] = milliseconds(max(ended, moment(event["ts"] or 0) + random.choice([0, 1, 1, 1000])))
    elif event["shape"] == "start_edge" and random.random() < 0.9:
        event.pop("until", None)
    return stream


def recut(random: Random, made: Json) -> Json:
    """The same events in other micro-batches: one ends, or crashes, after any of them."""
    found: list[Json] = []
    clock = None
    for step in made["steps"]:
        clock = step.get("clock", step.get("arrival", clock))
        found.append(step)
        if "event" in step and random.random() < 0.5:
            if clock is None or random.random() < 0.4:
                found.append({"crash": True})
            else:
                found.append({"clock": clock})
    return {**made, "steps": found}
