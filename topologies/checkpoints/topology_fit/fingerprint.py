"""The parts of a topology that its checkpoint depends on, in words that can be compared and shown."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from topologies.graph.nodes.spout import SpoutNode
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.rules_in_words import changed
from topologies.graph.streams import stream_label
from topologies.io.kafka import KafkaSpout
from topologies.io.spouts import FrameSpout
from topologies.topology import Topology
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.data.schema import format_schema, parse_schema
from windowing.settings import DECLARED, WindowSettings
from windowing.time.durations import Duration

STATE = tuple(name for name, declared in DECLARED.items() if declared.resumes is False)
"""Rules of time that what is kept in a checkpoint depends on; the others may change between two runs, or only where
that leaves the windows, their policies and the kind of time as they are."""

_AS_IT_IS = ("lifetime", "panes")
"""Those whose text is Python's: older checkpoints hold it, so it stays; people are shown ``_shown``."""

_WORDS = (
    (r"parse_duration\('(\w+)'\)", r"\1"),
    (r"Count\(value=1\)", "1 event"),
    (r"Count\(value=(\d+)\)", r"\1 events"),
    (r"<\w+\.\w+: '([^']*)'>", r"\1"),
    (r", \w+=(?:None|False)\b", ""),
)


def fingerprint(topology: Topology) -> dict[str, Any]:
    """The parts of a topology that must not change under a checkpoint; code, lag, late streams and sinks may."""
    return {
        "name": topology.name,
        "spouts": {name: _spout(node) for name, node in topology.spouts.items()},
        "bolts": {name: _windowed(node) for name, node in topology.windowed.items()},
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What has changed, a sentence each."""
    changed = []
    if before["name"] != now["name"]:
        changed.append(f"it is called {now['name']!r}, and was {before['name']!r}")
    for kind in ("spouts", "bolts"):
        for name in sorted({*before[kind], *now[kind]}):
            was, is_ = before[kind].get(name), now[kind].get(name)
            if was is None or is_ is None:
                changed.append(f"{kind[:-1]} {name!r} is {'new' if was is None else 'gone'}")
                continue
            changed.extend(
                f"{kind[:-1]} {name!r}: {_changed(what, was.get(what), is_.get(what))}"
                for what in sorted({*was, *is_})
                if was.get(what) != is_.get(what)
            )
    return changed


def without_bolts(note: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The note without these bolts, and without the columns of spouts: what bolts read of them they have themselves."""
    spouts = {name: {"kind": spout["kind"]} for name, spout in note["spouts"].items()}
    bolts = {name: bolt for name, bolt in note["bolts"].items() if name not in names}
    return {**note, "spouts": spouts, "bolts": bolts}


def bolts_that_differ(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The bolts that are new, gone or changed; empty where something else differs too."""
    names = [
        name
        for name in sorted({*before["bolts"], *now["bolts"]})
        if before["bolts"].get(name) != now["bolts"].get(name)
    ]
    return [] if differences(without_bolts(before, names), without_bolts(now, names)) else names


def parallelism_in(note: dict[str, Any]) -> dict[str, int]:
    """Per windowed bolt, how many tasks it has."""
    return {name: bolt["parallelism"] for name, bolt in note["bolts"].items()}


def with_parallelism(note: dict[str, Any], tasks: Mapping[str, int]) -> dict[str, Any]:
    """The note with other numbers of tasks for some of its bolts."""
    bolts = {
        name: {**bolt, "parallelism": tasks.get(name, bolt["parallelism"])} for name, bolt in note["bolts"].items()
    }
    return {**note, "bolts": bolts}


def digest_of(note: dict[str, Any]) -> str:
    """Short for the note, whatever the numbers of tasks."""
    alike = with_parallelism(note, dict.fromkeys(note["bolts"], 1))
    return hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()


def _changed(what: str, was: Any, is_: Any) -> str:
    if what == "sums" and was and is_:  # what is kept of them is not as the user has written it
        return "what it adds up has changed: its aggregates, or the columns that they are by"
    return f"{what} was {_shown(was)}, and is {_shown(is_)}"


def _shown(value: Any) -> str:
    """What is kept, as people write it: ``parse_duration('5m')`` is 5m, and what is not set is left out."""
    text = "; ".join(map(str, value)) if isinstance(value, list) else repr(value)
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def _spout(node: SpoutNode) -> dict[str, Any]:
    columns = {f"columns of {stream!r}": format_schema(schema) for stream, schema in node.outputs.items()}
    match node.spout:
        case FrameSpout():
            kind = "a streaming DataFrame"
        case KafkaSpout():
            kind = "Kafka"
        case _:
            kind = "files"
    return {"kind": kind, **columns}


def _offset(settings: WindowSettings) -> str:
    """By how much windows are moved on, less than a slide: with slides of 10 s, 3 s back are 7 s on."""
    slide, offset = settings.slide, settings.offset
    return str(Duration(offset.micros % slide.micros) if isinstance(slide, Duration) else offset)


def _windowed(node: WindowedNode) -> dict[str, Any]:
    settings = node.bolt.settings
    described = {
        "parallelism": node.parallelism,
        "window length": str(settings.length),
        "slide": str(settings.slide),
        "bounds": settings.bounds.value,
        "offset": _offset(settings),
        "time": "event time" if node.event_time else "processing time",
        "timestamp field": settings.timestamp_field,
        "watermark": "by the clock" if settings.watermark_interval.micros else "at every batch",
        "columns": format_schema(node.schema),
        "eviction": type(node.eviction).__name__,
        "trigger": type(node.trigger).__name__,
    }
    rules = changed(settings)
    described |= {
        name: repr(getattr(settings, name)) if name in _AS_IT_IS else rules[name] for name in STATE if name in rules
    }
    if settings.key_trigger is not None:
        described["trigger of keys"] = type(settings.key_trigger).__name__
    if node.remembers:
        described["expired"] = "the last window of each key is kept"
    if node.slicing is not None:
        described["sums"] = node.slicing.described
    if node.assigners:
        described["windows"] = [repr(each) for each in node.assigners]
    if len(set(node.keys)) > 1:
        described["key"] = [f"{name}: {', '.join(key)}" for name, key in zip(node.streams, node.keys, strict=True)]
    if node.versions is not None:
        described["versions"] = node.streams[node.versions]
    for each in node.inputs:
        described[f"grouping of {stream_label(each.stream)!r}"] = str(each.grouping)
    if isinstance(node.bolt, StatefulWindowedBolt):
        described["state"] = {
            name: kind.__name__ if isinstance(kind, type) else format_schema(parse_schema(kind))
            for name, kind in node.bolt.state_types.items()
        }
    return described
