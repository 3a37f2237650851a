"""The time of day at which the window of an event is to fire (UH-23)."""

from windbolt.step import Event


def time(event: Event) -> object:
    return event.value["closeAt"]
