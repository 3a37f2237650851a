"""Topologies that are drawn: several tasks, groupings, chains, and what the bolts of ``rows`` need."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

from tests.oracles.interpreter import cases
from tests.oracles.interpreter.own_drawn import EVICTIONS, KEY_TRIGGERS, LIMITS, TRIGGERS
from tests.oracles.interpreter.rows import streams
from tests.oracles.interpreter.topology import label
from tests.oracles.interpreter.values import EPOCH, Json, moment

AFTER = {
    "idle_timeout", "panes", "key", "message_id_field", "late_by", "allowed_lateness", "bounds", "offset", "aligned",
    "closes_after_end", "output_time", "output_watermark", "close_fires", "preset", "late", "late_stream", "lag",
    "watermark_every", "empty_windows_until", "anchor", "substreams", "processing_time",
}  # fmt: skip
"""Settings that mean something behind a windowed bolt."""


SHAPES = (
    "tasks", "chain", "chain", "ready", "join", "aggregate", "own", "triggered", "ids", "counts", "kept", "sources",
    "limits",
)  # fmt: skip


def draw(random: Random, shape: str | None = None) -> Json:
    """A topology of some shape, and a stream for it."""
    shape = shape or random.choice(SHAPES)
    if shape == "sources":
        return with_sources(random)
    made = case(random, bolts_of(random, shape))
    return far_from_zero(random, made) if shape in ("aggregate", "counts") else made


def bolts_of(random: Random, shape: str) -> list[Json]:
    match shape:
        case "tasks":
            return [one(random, "a", ["s1"], tasks=True)]
        case "own":
            bolts = [own(random)]
            if random.random() < 0.4:
                bolts.append(one(random, "b", [random.choice(["o", "o.each"])], behind=True))
            return bolts
        case "triggered":
            bolts = [triggered(random, "t", "s1")]
            if random.random() < 0.4:
                bolts[0]["tasks"] = 1  # else the order of its rows is not that of their moments
                bolts.append(triggered(random, "u", random.choice(["t", "t.each"])))
            return bolts
    of = {
        "chain": chain, "ready": with_ready, "join": with_join, "aggregate": with_aggregate, "ids": with_ids,
        "counts": with_counts, "kept": with_state, "limits": with_limits,
    }  # fmt: skip
    return of[shape](random)


def case(random: Random, bolts: list[Json], times: Json | None = None) -> Json:
    """``times``: the rules of the sources."""
    spouts = sorted({name for node in bolts for name, *_ in node["inputs"] if name in ("s1", "s2")})
    windowed = [node for node in bolts if "bolt" in node]
    merged: Json = {"key": ["k", "q"], "message_id_field": "m", "watermark_partition": "p"}
    for node in windowed:
        merged |= {name: value for name, value in node["bolt"].items() if name != "key"}
    if any("calendar" in str(node["bolt"]) or "daily" in str(node["make"]) for node in windowed):
        merged["calendar"] = True
    if not all("calendar" in str(node["bolt"]) or "triggered" in node["make"] for node in windowed):
        for name in ("calendar", "windows"):  # times so far apart are millions of the other bolts' windows
            merged.pop(name, None)
    if all("timestamp_field" not in node["bolt"] for node in windowed):
        merged.pop("timestamp_field", None)
    steps = list(cases.steps(random, {**merged, "also": "'at' end_field gap_field", "times": times}, spouts))
    for step in (step for step in steps if "event" in step):
        step.setdefault("stream", spouts[0])
        event = step["event"]
        event["v"] = random.choice([0, 1, 2, 3, 5, 6])
        event["x"] = random.choice([0.5, -1.25, 3.0, 1e9, 1e9 + 1, None])
        event |= {each: iso(event[each]) for each in ("ts", "at", "until", "cti") if isinstance(event.get(each), float)}
    return {"name": "drawn", "spouts": spouts, "bolts": bolts, "steps": list(of_one_clock(steps))}


def far_from_zero(random: Random, made: Json) -> Json:
    """The same, with values that are large and near each other: sums of squares alone would lose their digits."""
    whole, number = random.choice([0, 0, 10**9, 1_700_000_000_123_456]), random.choice([0, 0, 1e9, -3e12, 1.7e15])
    for step in made["steps"]:
        if "event" in step:
            event = step["event"]
            event["v"] += whole
            event["x"] = None if event["x"] is None else number + random.choice([0.5, -1.25, 3.0])
    return made


def of_one_clock(steps: list[Json]) -> Iterator[Json]:
    """The clock is read once at the start of a micro-batch, so one ends before an event that moves it."""
    clock, waits = None, False
    for step in steps:
        moved = step.get("clock", step.get("arrival"))
        if waits and moved is not None and moved != clock:
            yield {"crash": True}
        clock = clock if moved is None else moved
        waits = "event" in step
        yield step


def iso(time: float) -> str:
    return (EPOCH + timedelta(microseconds=moment(time))).isoformat()


def one(random: Random, name: str, inputs: list[str], *, tasks: bool = False, behind: bool = False) -> Json:
    """A windowed bolt with one to three settings."""
    names = sorted(set(cases.VALUES) - {"listed_keys", "imports", "imports_beside", "estimate_arrival"})
    if behind:
        names = sorted(AFTER & set(names))
    chosen = tuple(random.sample(names, random.choice([0, 1, 1, 2, 2, 3])))
    bolt = cases.with_settings(random, chosen, ())
    if bolt.get("watermark_partition") == cases.SOURCE:
        bolt["watermark_partition"] = "p"
    bolt = {key: value for key, value in bolt.items() if key in chosen or key in PLACES or not behind}
    if behind and random.random() < 0.7:
        bolt.pop("timestamp_field", None)
    if "late_stream" in bolt or (not behind and random.random() < 0.2 and "timestamp_field" in bolt):
        bolt["late_stream"] = "late"
    number = random.choice([1, 1, 2, 3]) if tasks or random.random() < 0.4 else 1
    grouped = []
    keys = bolt.get("substreams") or bolt.get("key") or []
    for stream in inputs:
        how = random.choice(["fields", "fields", "global", "shuffle", "all"])
        by = random.choice([["k"], ["q"], ["k", "q"]])
        if keys and how == "fields":
            by = random.choice([keys, keys[:1]])
        if keys and how in ("shuffle", "all"):
            how = "global"
        grouped.append([stream, how, by if how == "fields" else []])
    if len({how for _, how, _ in grouped}) > 1 or number == 1:
        grouped = [[stream, *grouped[0][1:]] for stream, *_ in grouped]
    made = {"name": name, "make": [random.choice(["gather", "gather", "gone"])], "bolt": bolt}
    if "panes" in bolt or "windows" in bolt:
        made["make"] = ["gather"]
    return {**made, "tasks": number, "inputs": grouped, "sinks": sinks(name, made)}


PLACES = {"length", "sliding", "tumbling", "session", "snapshot", "sliding_log", "count_by_start", "calendar",
          "windows", "timestamp_field"}  # fmt: skip


def sinks(name: str, made: Json) -> list[str]:
    found = [label(name, stream) for stream in streams(made["make"])]
    return found + ([label(name, "late")] if made["bolt"].get("late_stream") else [])


def chain(random: Random) -> list[Json]:
    """Two or three windowed bolts, with plain ones between them, and perhaps a spout beside."""
    bolts = [one(random, "a", ["s1"] if random.random() < 0.8 else ["s1", "s2"])]
    for name in ("b", "c")[: random.choice([1, 1, 2])]:
        before = bolts[-1]
        sources = [each for each in before["sinks"] if not each.endswith(".late")]
        source = random.choice(sources)
        late = [each for node in bolts for each in node["sinks"] if each.endswith(".late")]
        if late and random.random() < 0.5:
            source = f"r{name}"
            bolts.append(plain(source, ["renamed", name], random.choice(late)))
        elif random.random() < 0.3:
            make: list[Any] = random.choice([["filter", 2], ["shift", "2ms"], ["shift", "-3ms"], ["sides"]])
            bolts.append(plain(f"p{name}", make, source))
            source = f"p{name}" + (".odd" if make[0] == "sides" and random.random() < 0.5 else "")
        inputs = [source]
        if random.random() < 0.15:
            inputs.append(random.choice(["s1", "s2"]))
        node = one(random, name, inputs, behind=True)
        if len(inputs) > 1 or source.startswith("r"):
            node["bolt"].setdefault("timestamp_field", "ts")
            node["bolt"].pop("processing_time", None)
        bolts.append(node)
    return bolts


def with_state(random: Random) -> list[Json]:
    """A bolt without windows that keeps state: by itself, behind windows, and before them."""
    bolts = [one(random, "a", ["s1"])] if random.random() < 0.5 else []
    key, source = random.choice([[], ["k"], ["q"], ["k", "q"]]), random.choice(["a", "a.each"]) if bolts else "s1"
    sources = [source] if bolts or random.random() < 0.6 else ["s1", "s2"]
    how = random.choice(
        ["fields", "fields", "global", *([] if key else ["all"]), *([] if key or bolts else ["shuffle"])]
    )
    by = (key or ["k"]) if how == "fields" else []
    every = None if bolts or random.random() < 0.5 else random.choice([1, 3000, 7000])
    made = {"name": "n", "make": ["kept", key, random.random() < 0.4, every], "tasks": random.choice([1, 2, 3])}
    bolts.append(
        {**made, "inputs": [[each, how, by] for each in sources], "sinks": ["n", "n.odd"] + ["n.told"] * bool(every)}
    )
    if random.random() < 0.7:
        behind = one(random, "b", [random.choice(["n", "n.odd"])], behind=True)
        if len(bolts) == 1 and not behind["bolt"].get("processing_time"):
            behind["bolt"]["timestamp_field"] = "ts"
        bolts.append(behind)
    return bolts


def triggered(random: Random, name: str, source: str) -> Json:
    """A bolt whose windows a trigger fires, and what becomes of events on which its rule fails."""
    trigger = random.choice(sorted(KEY_TRIGGERS))
    limits = {**random.choice(LIMITS)}
    if "count" in trigger:  # which is a limit itself
        limits.pop("max_events", None)
    fails = "failing" in trigger or "by rule" in trigger
    by = random.choice([["k"], ["k", "q"]])
    make = ["triggered", trigger, limits | ({"refused_stream": "refused"} if fails else {})]
    node = ready_bolt(random, name, make, [source], by, {"key": by})
    node["sinks"] += [f"{name}.refused"] if fails else []
    return node


def own(random: Random) -> Json:
    """A bolt whose policies are the user's own."""
    make = ["own", random.choice(sorted(TRIGGERS)), random.choice(sorted(EVICTIONS))]
    by = random.choice([[], [], ["k"]])
    bolt = timed(random, {"key": by} if by else {})
    return ready_bolt(random, "o", make, ["s1"], by or ["k"], bolt)


def with_sources(random: Random) -> Json:
    """Sources that say the rules of time of the bolts that read them, which say some of them themselves."""
    spouts = random.choice([["s1"], ["s1", "s2"], ["s1", "s2"]])
    given = [each for each in cases.VALUES["preset"] if "imports" not in str(each)]
    if random.random() < 0.6:
        given = [each for each in given if "streaminsight" in str(each)]
    times = {name: random.choice(given) for name in spouts}
    if random.random() < 0.2:
        times["s2"] = times["s1"]
    bolts: list[Json] = []
    if random.random() < 0.3:
        make: list[Any] = random.choice([["filter", 2], ["shift", "2ms"], ["sides"]])
        bolts.append(plain("p", make, "s1"))
    node = one(random, "a", ["p" if bolts else "s1", *spouts[1:]])
    if random.random() < 0.9:
        node["bolt"].pop("preset", None)
    bolts.append(node)
    if random.random() < 0.3:
        bolts.append(one(random, "b", [random.choice(["s1", "a"])], behind=True))
        if bolts[-1]["inputs"][0][0] == "s1":
            bolts[-1]["bolt"]["timestamp_field"] = "ts"
    return {**case(random, bolts, times), "times": times}


def with_limits(random: Random) -> list[Json]:
    """A bolt of some kind that allows so many bytes of a window, or so long a call."""
    bolts = bolts_of(random, random.choice(["tasks", "chain", "own", "triggered"]))
    node = random.choice([each for each in bolts if "bolt" in each])
    number: Json = {"window_bytes": random.choice([1, 60, 150, 400, 1000, 10**9])}
    node["limits"] = number if random.random() < 0.8 else random.choice([{"call_time": "400ms"}, {"call_time": "1h"}])
    return bolts


def plain(name: str, make: list[Any], source: str) -> Json:
    return {"name": name, "make": make, "inputs": [[source, "shuffle", []]], "sinks": []}


CUTS = ("as it is", "in one batch", "other batches", "a batch for each event")


def cut(random: Random, made: Json, place: int) -> Json:
    """The same, its batches cut in one of these ways."""
    steps: list[Json] = []
    for step in made["steps"]:
        is_event = "event" in step
        match CUTS[place]:
            case "in one batch":
                steps += [{"event": step["event"], "stream": step["stream"]}] if is_event else []
            case "a batch for each event":
                steps += [step, {"crash": True}] if is_event else [step]
            case "other batches" if is_event and random.random() < 0.4:
                steps += [step, {"crash": True} if random.random() < 0.6 else {"tick": "watermark"}]
            case _:
                steps.append(step)
    return {**made, "steps": [*steps, {"close": True}] if CUTS[place] == "in one batch" else steps}


# ---- ready bolts, joins, aggregates

TIMES: list[Json] = [
    {}, {"lag": "3ms"}, {"watermark_every": 1}, {"watermark_every": 2, "lag": "2ms"}, {"late_by": "window"},
    {"late_by": "window", "allowed_lateness": "3ms"}, {"preset": {"atlas": {"allowed_lateness": "4ms"}}},
    {"preset": {"streaminsight": {"every": 2, "delay": "2ms"}}},
    {"preset": {"azure": {"late": "6ms", "out_of_order": "2ms", "early": "5ms", "arrival_field": "at"}}},
    {"idle_timeout": "3ms"}, {"close_fires": False}, {"message_id_field": "m"}, {"late_stream": "late"},
    {"late": "error"}, {"late": "error", "lag": "5ms"},
]  # fmt: skip


def timed(random: Random, places: Json | None = None) -> Json:
    bolt = {"timestamp_field": "ts", **random.choice(TIMES), **(places or {})}
    return bolt | (random.choice(TIMES) if random.random() < 0.3 else {})


def ready_bolt(random: Random, name: str, make: list[Any], inputs: list[str], by: list[str], bolt: Json) -> Json:
    tasks = random.choice([1, 1, 2, 3])
    how = ["fields", by] if by and random.random() < 0.8 else ["global", []]
    sunk = [name, *([f"{name}.rest"] if make[0] in ("deduplicate", "rate_limit", "changes") else [])]
    sunk += [f"{name}.late"] * ("late_stream" in bolt)
    inputs_of = [[each, *how] for each in inputs]
    return {"name": name, "make": make, "bolt": bolt, "tasks": tasks, "inputs": inputs_of, "sinks": sunk}


def with_ready(random: Random) -> list[Json]:
    """Ready bolts that pass events on, by themselves, behind windows and before them."""
    bolts = [one(random, "a", ["s1"])] if random.random() < 0.3 else []
    source, behind = ("a.each" if bolts else "s1"), bool(bolts)
    for name in ("b", "c")[: random.choice([1, 1, 2])]:
        by = random.choice([["k"], ["k", "q"], ["q"], []])
        make: list[Any] = random.choice(
            [
                ["deduplicate", by or ["k"], random.choice([1, 3, 7])],
                ["rate_limit", random.choice([1, 2]), by, random.choice([1, 3, 7])],
                ["changes", by, ["v"], random.choice([None, None, 4])],
                ["silence", by, random.choice([1, 3, 6])],
                ["union"],
                ["top", random.choice([1, 2]), "v", by, random.random() < 0.5],
                ["rank", random.choice(["row_number", "rank", "dense_rank"]), "v", by, random.random() < 0.5],
            ]
        )
        grouped = by or (["k"] if make[0] == "deduplicate" else [])
        places = random.choice(cases.WINDOWS) if make[0] in ("top", "rank") else {}
        bolt = timed(random, places)
        if behind:
            bolt = {each: bolt[each] for each in bolt if each in AFTER | PLACES and each != "preset"}
            if random.random() < 0.8:
                bolt.pop("timestamp_field", None)
        inputs = [source, "s2"] if not behind and random.random() < 0.3 else [source]
        bolts.append(ready_bolt(random, name, make, inputs, grouped, bolt))
        if make[0] in ("top", "rank"):
            break
        source, behind = name if random.random() < 0.8 or make[0] in ("silence", "union") else f"{name}.rest", True
    if bolts[-1]["make"][0] not in ("top", "rank") and random.random() < 0.5:
        bolts.append(one(random, "d", [source], behind=True))
    return bolts


def with_join(random: Random) -> list[Json]:
    on = random.choice([["k"], ["k", "q"]])
    how = random.choice(["inner", "left", "right", "full", "semi", "anti"])
    if random.random() < 0.5:
        places = random.choice(cases.WINDOWS) | random.choice([{}, {}, {"key": on}])
        return [ready_bolt(random, "j", ["window_join", "s1", "s2", on, how], ["s1", "s2"], on, timed(random, places))]
    versions = random.random() < 0.3
    lasting: list[Json] = [{"end_field": "until"}, {}]
    lasting += [] if versions else [{"end_field": "until", "shape_field": "shape", "edge_key": on}]
    bolt = timed(random) | random.choice(lasting) | random.choice([{}, {}, {"late": "cut"}])
    if versions or how in ("semi", "anti"):
        bolt.pop("message_id_field", None)  # how long its id lives depends on the other events
    return [ready_bolt(random, "j", ["temporal_join", "s1", "s2", on, how, versions], ["s1", "s2"], on, bolt)]


EMPTY: Json = {"empty_windows_until": "20ms"}

AGGREGATES: list[list[Any]] = [
    ["count"], ["count", "v"], ["sum", "v"], ["sum", "x"], ["mean", "x"], ["mean", "v"], ["variance", "x"],
    ["std", "v"], ["covariance", "v", "x"], ["corr", "v", "x"], ["weighted_mean", "x", "v"], ["min", "x"], ["max", "v"],
    ["first", "v"], ["last", "x"], ["collect", "v"], ["distinct_count", "v"], ["mode", "v"],
    ["histogram", "v", [1, 3, 5]], ["max_by", "id", "v"], ["min_by", "x", "v"], ["top", 2, "id", "v"],
    ["bottom", 3, "v", "x"],
]  # fmt: skip


def with_ids(random: Random) -> list[Json]:
    """Message ids need three things at once, which pairs of settings seldom bring together: ids, a key, and a kind."""
    by = random.choice([["k"], ["k"], ["k", "q"], []])
    places = random.choice(cases.WINDOWS) if random.random() < 0.5 else random.choice(COUNTS)
    bolt = timed(random, places | ({"key": by} if by else {})) | {"message_id_field": "m"}
    if random.random() < 0.25:
        make = ["silence", by, random.choice([1, 3, 6])]
        bolt = {name: bolt[name] for name in bolt if name not in PLACES | {"key"}} | {"timestamp_field": "ts"}
    else:
        make = ["gather"]
    return [ready_bolt(random, "i", make, ["s1"], by or ["k"], bolt)]


COUNTS: list[Json] = [
    {"length": 3, "sliding": 2}, {"length": 3}, {"length": 2, "tumbling": True}, {"length": 4, "sliding": 3},
]  # fmt: skip


def with_counts(random: Random) -> list[Json]:
    """Windows of a number of events of each key, by the clock: each event counts as it comes."""
    key, by = random.choice([["k"], ["k", "q"]]), random.choice([["k"], ["k", "q"], ["q"], []])
    named = {f"a{at}": each for at, each in enumerate(random.sample(AGGREGATES, random.choice([1, 3, 5])))}
    slide = random.choice([1, 2, 2, 3])
    bolt = {"key": key, "length": slide * random.choice([1, 1, 2, 3]), "sliding": slide}
    return [ready_bolt(random, "g", ["aggregate", by, named], ["s1"], key, bolt)]


def with_aggregate(random: Random) -> list[Json]:
    by = random.choice([["k"], ["k", "q"], []])
    named = {f"a{at}": each for at, each in enumerate(random.sample(AGGREGATES, random.choice([1, 3, 5])))}
    bolts = [one(random, "a", ["s1"])] if random.random() < 0.2 else []
    bolt = timed(random, random.choice(cases.WINDOWS) | random.choice([{}, {}, {"key": by} if by else {}]))
    bolt |= random.choice(
        [{}, {}, {"panes": random.choice(cases.VALUES["panes"])}, {"bounds": "[start, end)"}, EMPTY | {"key": by}]
    )
    if bolts:
        bolt.pop("timestamp_field")
    source = "a.each" if bolts and "x" not in str(named) else "s1"
    if source == "s1":
        bolt["timestamp_field"], bolts = "ts", []
    return [*bolts, ready_bolt(random, "g", ["aggregate", by, named], [source], by, bolt)]
