"""The windows of a scenario's answer, from what was traced of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from topologies.scenarios.run.scenario_answer import (
    AnswerPane,
    AnswerWindow,
)
from topologies.topology import Topology
from windowing.settings import WindowSettings
from windowing.time.durations import Count


def answer_window(
    topology: Topology, row: dict[str, Any], steps: Mapping[str, str], bolts: Sequence[str], prefix: str
) -> AnswerWindow:
    """A window of an answer.

    ``steps``: the names of aggregation steps by those of their bolts. ``bolts``: those that have windows, with the
    prefix that their names have here.
    """
    node = topology.windowed[row["bolt"]]
    settings = node.bolt.settings
    counts = isinstance(settings.length, Count) and isinstance(settings.slide, Count)
    window = AnswerWindow(
        batch=row["batch"],
        due=row["due"],
        by_clock=row["by_clock"],
        brackets=_brackets(settings, row),
        start=row["start"],
        end=None if counts and not node.event_time else row["end"],
        events=row["events"],
        new=row["new"],
        expired=row["expired"],
    )
    if len(steps) > 1:
        window["step"] = steps[row["bolt"]]
    if not steps and len(bolts) > 1:
        window["bolt"] = row["bolt"].removeprefix(prefix)
    if node.parallelism > 1:
        window["task"] = row["task"]
    key, pane = row.get("key"), row.get("pane")
    if key is not None:
        window["key"] = json.loads(key)
    if len(settings.kinds) > 1:
        window["kind"] = row["kind"]
    if settings.panes is not None and pane is not None:
        shown = json.loads(pane)
        window["pane"] = AnswerPane(index=shown["index"], timing=shown["timing"], last=shown["last"])
    if row.get("by") is not None:
        window["by"] = row["by"]
    return window


def _brackets(settings: WindowSettings, row: Mapping[str, Any]) -> tuple[str, str]:
    if row.get("by") is not None and settings.trigger is None:
        return "[", "]"  # from its first event to what fired it
    declared = settings.bounds
    bounds = settings.kinds[row["kind"] or 0].bounds(declared) if settings.kinds else declared
    return bounds.value[0], bounds.value[-1]
