"""Aggregation steps as worlds: their configuration, drawn from a seed, and the messages that they read."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from topologies.graph.graph import Graph
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step

SPOUT = "source"
"""What a step calls its source."""
SAID = ["none"] * 6 + ["fire", "purge", "decline", "passthrough", "branch", "fail", "refuse"]
"""What messages say to the rules."""
_RULES = "tests/simulation/world/step_rules.py"
"""Found from the folder that the package ``tests`` is in."""
_OUT: dict[str, Any] = {"config": {"name": "out"}}


def drawn_step(chance: random.Random) -> dict[str, Any]:
    """A step, without what all of them have."""
    step: dict[str, Any] = {"trigger": _trigger(chance), "key": chance.choice([{"type": "key"}, {"type": "dsl"}])}
    step |= {"stateFull": chance.random() < 0.5, "parallelism": chance.choice([1, 2, 3])}
    step["destination"] = {"name": "totals", "topic": "totals", **_OUT}
    if chance.random() < 0.3:
        step["destination"] = {
            "name": "again", "type": "aggregation", "trigger": _trigger(chance), "key": {"type": "dsl"},
            "destination": {"name": "twice", "topic": "twice", **_OUT},
            "error": {"name": "dead", "topic": "dead", **_OUT},
        }  # fmt: skip
    return step


def _trigger(chance: random.Random) -> dict[str, Any]:
    timeout = chance.choice(["500ms", "5s", "1h"])
    match chance.choice(["count", "dsl", "dsl", "time", "timeFromEvent"]):
        case "count":
            own = chance.random() < 0.5
            return {
                "type": "count", "count": chance.choice([1, 2, 5]), "timeout": timeout,
                "shouldFireAtProcessingTime": own,
            }  # fmt: skip
        case "dsl":
            return {"type": "dsl", "timeout": timeout} | chance.choice([{}, {"maxEvents": 3}])
        case "time":
            at = f"{chance.randrange(24):02d}:00:00"
            return {"type": "time", "time": at, "timePattern": "HH:mm:ss", "maxEmptyIntervals": 2}
    return {"type": "timeFromEvent", "timePattern": "HH:mm:ss", "maxEmptyIntervals": chance.choice([1, 3])}


def step_made(step: dict[str, Any], per_batch: int, folder: str) -> Graph:
    """The topology of a step that reads and writes files below a folder."""
    source = {"type": "files", "path": f"{folder}/{SPOUT}/*.jsonl", "topic": "orders", "filesPerBatch": per_batch}
    whole = {
        "name": "orders",
        **_completed(step),
        "branches": [{"name": "aside", "topic": "aside", **_OUT}],
        "error": {"name": "dead", "topic": "dead", **_OUT},
        "source": source,
        "connections": {"out": {"type": "files", "path": f"{folder}/out"}},
    }
    path = Path(folder, "step.yaml")
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return step_topology(load_step(path))


def _completed(step: dict[str, Any]) -> dict[str, Any]:
    """A step, or one that follows it, with its formats and rules."""
    trigger, key = step["trigger"], step["key"]
    by_rules = trigger["type"] in ("dsl", "timeFromEvent")
    to = step["destination"]
    return {
        **step,
        "type": "aggregation",
        "format": {"input": "json", "output": "json"},
        "dsl": {"path": _RULES},
        "ruleTimeLimit": "1h",
        "trigger": {**trigger, "path": _RULES} if by_rules else trigger,
        "key": {**key, "path": _RULES} if key["type"] == "dsl" else key,
        "destination": _completed(to) if "trigger" in to else to,
    }
