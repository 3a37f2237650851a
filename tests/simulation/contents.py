"""What the windows of a world should have held: worked out from its steps by the oracles, which know no batches.

Runs with faults are compared with a run of the same engine without; this compares that one with the definition of
windows. It is done for bolts that read the events of a spout as they are, with rules that the oracles know.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.feather as feather
import pyarrow.parquet as pq

from tests.oracles import time_oracle, window_oracle
from windowing import WindowedBolt, presets
from windowing.settings.kinds import Session

Json = dict[str, Any]
ACCOUNTS = ("windowed", "late", "unwindowed", "pending")


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
    if "watermark_every" in rules:
        bolt = bolt.with_watermark(every=rules["watermark_every"])
    return bolt.with_key(*rules["key"]) if "key" in rules else bolt


def follows_events(rules: Json) -> bool:
    """Whether the watermark comes with events, and not at ticks."""
    return not {"preset", "watermark_every"}.isdisjoint(rules)


def differences(
    name: str, rules: Json, steps: Iterable[Json], rows: list[Json], accounts: Mapping[str, int]
) -> list[str]:
    """In what the windows and accounts of a bolt differ from those that its steps demand."""
    oracle = time_oracle if follows_events(rules) else window_oracle
    answer = oracle.answer({"bolt": rules, "steps": list(steps)})
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
    for account in ACCOUNTS:
        if accounts[account] != answer["counts"][account]:
            problems.append(f"{name}: {account} are {accounts[account]}, and should be {answer['counts'][account]}")
    return problems


def _end(rules: Json, end: Any) -> Any:
    """The end of a window; those of counts in processing time have none to compare."""
    return None if "timestamp_field" not in rules and isinstance(rules["length"], int) else end


def steps_of(lines: Iterable[str], clock: int, *, event_time: bool) -> list[Json]:
    """The steps of a scenario that a batch of lines is; ``clock`` in microseconds."""
    moment = clock // 1_000 if clock % 1_000 == 0 else clock / 1_000
    steps: list[Json] = [{"clock": moment}]
    for line in lines:
        event = _event(line)
        if event is not None and not (event_time and event["ts"] is None):
            steps.append({"event": event})
    return [*steps, {"tick": "watermark"}]


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
