"""The rules of aggregation that the scenarios of the aggregation step use."""

from windbolt.step import Aggregation, Event, Out


def aggregate(events: list[Event], call: Aggregation) -> object:
    """The ids of the events, and what a rule is told of their window (UH-29)."""
    return {"key": call.key, "ids": [event.value["id"] for event in events], "ms": call.window_ms, "n": call.count}


def cut_off(events: list[Event], call: Aggregation) -> object:
    """The ids of the events, and whether their window was full."""
    return {"ids": [event.value["id"] for event in events], "full": call.full}


def total(events: list[Event], call: Aggregation) -> object:
    """One event (UH-24)."""
    return Out(sum(event.value["v"] for event in events), key="k")


def several(events: list[Event], call: Aggregation) -> None:
    """An event for each, and headers for each (UH-25)."""
    call.out = [event.value["v"] for event in events]
    call.headers = [{"TargetTopic": "a"}, {"TargetTopic": "b", "TargetKey": "kb", "kafka": {"kind": "x"}}]


def mismatch(events: list[Event], call: Aggregation) -> None:
    """More events than headers (UH-25)."""
    call.out = [event.value["v"] for event in events]
    call.headers = [{"TargetTopic": "a"}]


def decline(events: list[Event], call: Aggregation) -> str:
    """Nothing is to be emitted (UH-26)."""
    call.out = 1
    return "decline"


def passthrough(events: list[Event], call: Aggregation) -> str:
    """The events are passed on as they are (UH-27)."""
    return "passthrough"


def marked(events: list[Event], call: Aggregation) -> str:
    """The events are passed on, with another header and key (UH-27)."""
    call.headers = {"TargetKey": "marked", "kafka": {"seen": "yes"}}
    return "passthrough"


def five(events: list[Event], call: Aggregation) -> str:
    """What is there when the rule returns is emitted (UH-28)."""
    call.out = 5
    return "x"


def counting(events: list[Event], call: Aggregation) -> object:
    """How often it has been called for its key (UH-29, UH-30)."""
    call.cache["calls"] = call.cache.get("calls", 0) + 1
    return {"key": call.key, "calls": call.cache["calls"]}


def told(events: list[Event], call: Aggregation) -> object:
    """All that a rule is told of its events, and the variables that were loaded (UH-29)."""
    return {
        "sources": [[event.topic, event.key, dict(event.headers)] for event in events],
        "limit": call.variables["limit"],
        "shop": call.variables["shops"][call.key],
    }


def branching(events: list[Event], call: Aggregation) -> object:
    """The large ones go to a branch (UH-32)."""
    return [
        Out(event.value, branch=event.value.get("branch")) if event.value["v"] > 1 else event.value for event in events
    ]


def failing(events: list[Event], call: Aggregation) -> object:
    """Fails on what has no number (UH-31)."""
    return sum(event.value["v"] for event in events)
