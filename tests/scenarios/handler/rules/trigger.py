"""The rules of triggers that the scenarios of the aggregation step use."""

from windbolt.step import Event, TriggerCall


def trigger(event: Event, call: TriggerCall) -> object:
    """What the event itself says (UH-16 to UH-18)."""
    return event.value.get("say", "continue")


def counting(event: Event, call: TriggerCall) -> str:
    """Fires at the third event, by what it keeps from call to call (UH-19)."""
    call.cache["n"] = call.cache.get("n", 0) + 1
    return "fireAndPurge" if call.cache["n"] == 3 else "continue"


def surroundings(event: Event, call: TriggerCall) -> str:
    """Fires on an event that its surroundings name: topic, key, header and time (UH-19)."""
    wanted = (event.topic, event.key, event.headers.get("kind"), call.fire_ms, call.key)
    return "fireAndPurge" if list(wanted) == event.value["wanted"] else "continue"


def failing(event: Event, call: TriggerCall) -> str:
    """Fails where the event says so; what it kept until then stays as it was (UH-31)."""
    call.cache["n"] = call.cache.get("n", 0) + 1
    if event.value.get("fail"):
        raise ValueError("no use for it")
    return "fireAndPurge" if call.cache["n"] == 2 else "continue"
