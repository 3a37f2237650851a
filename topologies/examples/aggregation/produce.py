"""Writes orders of many shops to a topic.

    python -m topologies.examples.aggregation.produce --events 1000000 --keys 10000

The orders of a shop are in one partition, and in order: the message's key is the shop. The last order of each says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from topologies.cli.consoles import Debug, out, readable_errors
from topologies.examples.aggregation.kafka import Servers, send


def produce(
    servers: Servers = "localhost:9092",
    topic: Annotated[str, typer.Option(help="The topic, which must be there.")] = "input",
    events: Annotated[int, typer.Option(min=1, help="How many orders.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="How many shops.")] = 10_000,
    debug: Debug = False,
) -> None:
    """Write orders of many shops to a topic."""
    with readable_errors(debug=debug):
        sent = send(servers, topic, _orders(events, keys))
        out().print(Text(f"{sent:,} orders of {min(keys, events):,} shops are in {topic}"))


def _orders(events: int, keys: int) -> Iterator[dict[str, Any]]:
    for number in range(events):
        shop, last = f"shop-{number % keys}", number >= events - keys
        order = {"id": number, "shop": shop, "amount": number * 7919 % 10000 / 100, "last": last}
        yield {"key": shop.encode(), "value": json.dumps(order, separators=(",", ":")).encode()}


if __name__ == "__main__":
    typer.run(produce)
