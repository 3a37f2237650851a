"""What the windows of a world should have held: worked out from its steps by the oracles, which know no batches.

Runs with faults are compared with a run of the same engine without; this compares that one with the definition of
windows. It is done for bolts that read the events of one or two spouts as they are, with rules that the oracles know.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.feather as feather
import pyarrow.parquet as pq

from tests.oracles import time_oracle, window_oracle
from windowing import WindowedBolt, presets
from windowing.settings.kinds import Session
from windowing.settings.rules import Arrival

Json = dict[str, Any]
ACCOUNTS = ("windowed", "late", "unwindowed", "pending")
MORE_ACCOUNTS = ("received", "early", "dropped", "invalid", "adjusted")
"""Those that the oracle of watermarks with events knows as well."""


def drawn(chance: random.Random) -> Json:
    """Rules that an oracle knows, as scenarios spell them."""
    count: list[int | str] = [1, 2, 3, 5]
    times: list[int | str] = ["500ms", "1s", "2s", "2500ms", "6s"]
    event_time = {"timestamp_field": "ts", "lag": f"{chance.choice([0, 500, 2_000, 6_000])}ms"}
    match chance.choice(["time", "time", "counts", "clock", "mixed", "atlas", "sessions", "every"]):
        case "time":
            bounds = chance.choice(["(start, end]", "[start, end)"])
            length, slide = chance.choice(times), chance.choice(times)
            offset = chance.choice(["0ms", "100ms"])
            return {"length": length, "sliding": slide, "bounds": bounds, "offset": offset, **event_time}
        case "counts":
            return {"length": chance.choice(count), "sliding": chance.choice(count), **chance.choice([event_time, {}])}
        case "clock":
            return {"length": chance.choice(times), "sliding": chance.choice(times)}
        case "mixed":
            extents = [chance.choice(count), chance.choice(times)]
            chance.shuffle(extents)
            return {"length": extents[0], "sliding": extents[1], **chance.choice([event_time, {}])}
        case "atlas":
            lateness = {"atlas": {"allowed_lateness": chance.choice(["0s", "2s"])}}
            return {"preset": lateness, "length": "6s", "sliding": chance.choice(["2s", "6s"]), "timestamp_field": "ts"}
        case "sessions":
            lateness = {"atlas": {"allowed_lateness": chance.choice(["0s", "2s"])}}
            session = {"gap": chance.choice(times)}
            return {"preset": lateness, "session": session, "key": ["user"], "timestamp_field": "ts"}
    length = chance.choice(times)
    return {
        "length": length,
        "sliding": length,
        "key": ["user"],
        "watermark_every": chance.choice([1, 3]),
        **event_time,
    }


def drawn_of_inputs(chance: random.Random, inputs: Sequence[str]) -> Json:
    """Rules of event time for a bolt of one input or several, as scenarios spell them.

    Events are often at the very bounds: the slides and tolerances are those by which times and arrivals are apart.
    """
    slide = chance.choice([50, 100, 300, 2_000])
    length = slide * chance.choice([1, 1, 2, 3]) // chance.choice([1, 1, 1, 2])
    closed_start = chance.random() < 0.5
    rules: Json = {
        "length": f"{length}ms",
        "sliding": f"{slide}ms",
        "bounds": "[start, end)" if closed_start else "(start, end]",
        "offset": chance.choice(["0ms", "1us", "100us"]) if closed_start else "0ms",
        "timestamp_field": "ts",
        "lag": f"{chance.choice([0, 0, 50, 300, 2_000])}ms",
    }
    if len(inputs) > 1:
        rules |= chance.choice([{}, {}, {}, *_combined(chance, inputs)])
    if chance.random() < 0.4:
        late = chance.choice([None, "0ms", "300ms", "1s", "2500ms", "5s"])
        early = chance.choice([None, "0ms", "3500ms", "6s"]) if late else "3500ms"
        action = chance.choice(["adjust", "drop", "divert"]) if late else "adjust"
        rules["arrival"] = {"field": "at", "early": early, "late": late, "action": action}
    if chance.random() < 0.3 and "late_per_input" not in rules:
        rules |= {"late_by": "window", "allowed_lateness": chance.choice(["0ms", "300ms", "2s"])}
        rules["late"] = chance.choice(["divert", "drop"])
    elif chance.random() < 0.3:
        rules["late"] = chance.choice(["drop", "adjust"])
    if not closed_start and (rules.get("late") == "adjust" or chance.random() < 0.2):
        rules["closes_after_end"] = True
    if chance.random() < 0.3:
        rules["key"] = ["user"]
    if not window_oracle.BOLT_KEYS.issuperset(rules) or chance.random() < 0.2:
        rules["watermark_every"] = chance.choice([time_oracle.TICKS, time_oracle.TICKS, 1, 3])
    return rules


def _combined(chance: random.Random, inputs: Sequence[str]) -> Iterator[Json]:
    """The ways to combine the watermarks of two inputs, besides the least of both."""
    yield {"watermark_combine": "max"}
    yield {"imports": {inputs[1]: inputs[0]}, "imports_beside": chance.random() < 0.5}
    yield {"partition_idle_timeout": chance.choice(["500ms", "4s", "30s"])}
    yield {"late_per_input": True}


def with_rules(bolt: WindowedBolt, rules: Json) -> WindowedBolt:
    """The bolt with these rules."""
    if "preset" in rules:
        bolt = bolt.with_time(presets.atlas(rules["preset"]["atlas"]["allowed_lateness"]))
    if "session" in rules:
        bolt = bolt.with_window(Session(rules["session"]["gap"]))
    else:
        bolt = bolt.with_window(rules["length"], rules["sliding"])
    if "offset" in rules:
        bolt = bolt.with_alignment(bounds=rules["bounds"], offset=rules["offset"])
    if "timestamp_field" in rules:
        bolt = bolt.with_timestamp_field(rules["timestamp_field"])
    if "lag" in rules:
        bolt = bolt.with_lag(rules["lag"])
    if rules.get("watermark_every", time_oracle.TICKS) != time_oracle.TICKS:
        bolt = bolt.with_watermark(every=rules["watermark_every"])
    if "closes_after_end" in rules:
        bolt = bolt.with_alignment(closes_after_end=True)
    bolt = _with_lateness(_with_combined_inputs(bolt, rules), rules)
    return bolt.with_key(*rules["key"]) if "key" in rules else bolt


def _with_combined_inputs(bolt: WindowedBolt, rules: Json) -> WindowedBolt:
    names = {"watermark_combine": "combine", "imports": "imports", "imports_beside": "imports_beside",
             "partition_idle_timeout": "partition_idle_timeout"}  # fmt: skip
    given = {argument: rules[name] for name, argument in names.items() if name in rules}
    return bolt.with_watermark(**given) if given else bolt


def _with_lateness(bolt: WindowedBolt, rules: Json) -> WindowedBolt:
    names = {"late_by": "by", "allowed_lateness": "allowed", "late": "action", "late_per_input": "per_input"}
    given = {argument: rules[name] for name, argument in names.items() if name in rules}
    if "arrival" in rules:
        given["arrival"] = Arrival(**rules["arrival"])
    return bolt.with_lateness(**given) if given else bolt


def follows_events(rules: Json) -> bool:
    """True if the oracle of watermarks with events answers for these rules."""
    return not {"preset", "watermark_every"}.isdisjoint(rules)


def differences(
    name: str,
    rules: Json,
    steps: Iterable[Json],
    rows: list[Json],
    accounts: Mapping[str, int],
    *,
    inputs: Sequence[str],
    watermarks: Sequence[int | None],
) -> list[str]:
    """In what the windows, accounts and watermarks of a bolt differ from those that its steps demand.

    ``watermarks``: in microseconds, after each batch; of a closing there is none.
    """
    oracle = time_oracle if follows_events(rules) else window_oracle
    answer = oracle.answer({"bolt": rules, "streams": list(inputs), "steps": list(steps)})
    found = Counter((row["key"].rstrip("'"), _end(rules, row["stop"]), row["ids"]) for row in rows)
    wanted = Counter(
        (
            str(window.get("key")),
            _end(rules, window["end"] and round(window["end"] * 1_000)),
            _sorted(window["events"]),
        )
        for window in answer["windows"]
    )
    problems = [f"{name}: a window should be there: {window}" for window in wanted - found]
    problems += [f"{name}: a window should not be there: {window}" for window in found - wanted]
    counted, wanted_counts = _laid_down(rules, accounts), _laid_down(rules, answer["counts"])
    for account in [*ACCOUNTS, *(MORE_ACCOUNTS if oracle is time_oracle else ())]:
        if counted[account] != wanted_counts[account]:
            problems.append(f"{name}: {account} are {counted[account]}, and should be {wanted_counts[account]}")
    return problems + [
        f"{name}: the watermark after batch {at} is {found_mark}, and should be {mark}"
        for at, (found_mark, mark) in enumerate(zip(watermarks, _watermarks(answer), strict=True))
        if found_mark != mark
    ]


def _laid_down(rules: Json, counts: Mapping[str, int]) -> Mapping[str, int]:
    """The counts; when an event between two windows is given up is not laid down where watermarks come with events."""
    if not follows_events(rules) or "session" in rules or _length(rules, "length") >= _length(rules, "sliding"):
        return counts
    return {**counts, "pending": 0, "unwindowed": counts["unwindowed"] + counts["pending"]}


def _length(rules: Json, name: str) -> int:
    return window_oracle.duration(rules[name])


def _watermarks(answer: Json) -> list[int | None]:
    """The watermark after each batch, in microseconds."""
    reached: list[int | None] = []
    for mark in answer["watermarks"]:
        last = reached[-1] if reached else None
        reached.append(last if mark is None else round(mark * 1_000))
    return reached


def _end(rules: Json, end: Any) -> Any:
    """The end of a window; those of counts in processing time have none to compare."""
    return None if "timestamp_field" not in rules and isinstance(rules["length"], int) else end


def steps_of(lines: Mapping[str, Iterable[str]], clock: int, rules: Json) -> list[Json]:
    """The steps of a scenario that a batch is, of the lines of each input; ``clock`` in microseconds."""
    moment = _milliseconds(clock)
    events = [(stream, _event(line)) for stream, of in lines.items() for line in of]
    if follows_events(rules):
        unreadable = {"id": "unreadable"}  # it has arrived all the same
        found: list[Json] = [{"event": event or unreadable, "stream": of, "arrival": moment} for of, event in events]
        return [*found, {"clock": moment}, {"tick": "watermark"}]
    event_time = "timestamp_field" in rules
    found = [
        {"event": event, "stream": of} for of, event in events if event and not (event_time and event["ts"] is None)
    ]
    return [{"clock": moment}, *found, {"tick": "watermark"}]


def closing_of(clock: int, rules: Json) -> Json:
    """The step of a scenario that the end of the streams is; by the clock, the time then decides what no later window
    can hold."""
    by_the_clock = not follows_events(rules) and "timestamp_field" not in rules
    return {"close": True, "clock": _milliseconds(clock)} if by_the_clock else {"close": True}


def _milliseconds(clock: int) -> float:
    return clock // 1_000 if clock % 1_000 == 0 else clock / 1_000


def _event(line: str) -> Json | None:
    """The event of a line; None if it is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return None if isinstance(row["amount"], str) else {**row, "id": str(row["id"])}


def rows_of(folder: str, format: str) -> list[Json]:
    """The key, the end and the ids of each row in the files of a sink."""
    rows: list[Json] = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith("."):
            continue
        match format:
            case "csv":
                with open(f"{folder}/{name}", newline="", encoding="utf-8") as file:
                    rows += csv.DictReader(file)
            case "jsonl":
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    rows += map(json.loads, file)
            case "parquet":
                rows += pq.read_table(f"{folder}/{name}").to_pylist()
            case _:
                rows += feather.read_table(f"{folder}/{name}").to_pylist()
    return [{"key": row["key"], "stop": int(row["stop"]), "ids": _sorted(row["ids"].split())} for row in rows]


def _sorted(ids: Iterable[str]) -> str:
    return " ".join(sorted(ids, key=int))
