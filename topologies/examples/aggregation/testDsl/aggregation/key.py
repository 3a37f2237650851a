"""The key of an order: orders with one key belong together."""

from windbolt.step import Event


def key(event: Event) -> str:
    """Returns the shop. An order without one raises a KeyError, and goes to the error step."""
    return str(event.value["shop"])
