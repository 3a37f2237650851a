"""The rules that the scenarios of chains of steps use."""

from topologies.step import Aggregation, Event, Out


def by_shop(event: Event) -> str:
    """The key of a further step: what the former has made (UH-9)."""
    return str(event.value["shop"])


def of_shop(events: list[Event], call: Aggregation) -> object:
    """The sum of a key, which is a user in a shop (UH-24)."""
    shop, _, user = call.key.partition("/")
    total = sum(event.value["v"] for event in events)
    return Out({"shop": shop, "user": user, "v": total}, key=user, headers={"shop": shop})


def told(events: list[Event], call: Aggregation) -> object:
    """What a further step is told of the messages that come to it (UH-29)."""
    came = [[event.topic, event.key, dict(event.headers)] for event in events]
    total = sum(event.value["v"] for event in events)
    return {"key": call.key, "ms": call.window_ms, "n": call.count, "v": total, "from": came}


def large(events: list[Event], call: Aggregation) -> object:
    """Small sums are declined (UH-26)."""
    total = sum(event.value["v"] for event in events)
    return "decline" if total < 3 else Out({"v": total}, key=call.key)


def named(events: list[Event], call: Aggregation) -> object:
    """A topic of its own (TargetTopic), and a branch for what is large (BranchName)."""
    return [
        Out(event.value, key=event.key, branch="large" if event.value["v"] > 2 else None, topic=event.value.get("t"))
        for event in events
    ]


def gone(events: list[Event], call: Aggregation) -> object:
    """A tombstone, and a message (UH-24)."""
    return [Out(None, key=call.key), Out({"v": 1}, key=call.key)]


def rescued(events: list[Event], call: Aggregation) -> object:
    """What an error step makes of what has failed: why, and where it was (UH-31); it fails on some, too."""
    (event,) = events
    if "poison" in str(event.value):
        raise ValueError("nor is this")
    why, of = event.headers["windbolt-reason"].rpartition(": ")[2], event.headers["windbolt-topic"]
    at = event.headers.get("windbolt-offset")
    return Out({"why": why, "at": at, "of": of, "topic": event.topic, "value": event.value}, key=event.key)
