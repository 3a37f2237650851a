"""The rules of the aggregation steps: what they do, messages say themselves."""

from __future__ import annotations

from typing import Any

from windbolt.step import Aggregation, Event, TriggerCall


def key(event: Event) -> str:
    """The user; a message without one fails."""
    return str(event.value["user"])


def trigger(event: Event, call: TriggerCall) -> Any:
    """Counts in its cache; fires where the message says so, and at every fourth."""
    if event.value["say"] == "refuse":
        raise ValueError("refused")
    call.cache["n"] = call.cache.get("n", 0) + 1
    if call.cache["n"] == 4:
        return "fireAndPurge"
    return {"fire": "fire", "purge": "purge"}.get(event.value["say"], "continue")


def time(event: Event) -> str:
    """The time of day of the first message of a key."""
    return f"{event.value['id'] % 24:02d}:00:00"


def aggregate(events: list[Event], call: Aggregation) -> Any:
    """The ids of the messages, how often the rules were called, and where the last message sends it."""
    last = events[-1].value["say"]
    call.cache["calls"] = call.cache.get("calls", 0) + 1
    if last == "fail":
        raise ValueError("failed")
    if last in ("decline", "passthrough"):
        return last
    if last == "branch":
        call.headers = {"BranchName": "aside"}
    return {"user": call.key, "say": "none", "id": call.cache["calls"], "ids": [event.value["id"] for event in events]}
