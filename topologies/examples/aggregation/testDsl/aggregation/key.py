"""The key of an order: orders with the same key are aggregated together."""

from windbolt.step import Event


def key(event: Event) -> str:
    """Returns the shop. An order without a shop raises a KeyError, and goes to the error step."""
    return str(event.value["shop"])
