"""The rules of keys that the scenarios of the aggregation step use."""

from windbolt.step import Event


def key(event: Event) -> object:
    """The id of the event (UH-8)."""
    return event.value.get("id")


def surroundings(event: Event) -> str:
    """All that a rule of keys is told (UH-9)."""
    return f"{event.topic}/{event.key}/{event.headers['region']}/{event.value['id']}"
