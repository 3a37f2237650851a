"""Writes orders of many shops to a topic.

    python -m topologies.examples.aggregation.produce --events 1000000 --keys 10000

The orders of a shop are in one partition, and in order: the message's key is the shop. The last order of each says so.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.consoles import Debug, out, readable_errors
from topologies.examples.aggregation.kafka import Conf, Servers, opened_topic

_ORDERS = (
    "concat('shop-', id % {keys}) AS key",
    "id",
    "to_json(named_struct('id', id, 'shop', concat('shop-', id % {keys}), 'amount', (id * 7919) % 10000 / 100, "
    "'last', id >= {events} - {keys})) AS value",
)


def produce(
    servers: Servers = "localhost:9092",
    topic: Annotated[str, typer.Option(help="The topic, which must be there.")] = "input",
    events: Annotated[int, typer.Option(min=1, help="How many orders.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="How many shops.")] = 10_000,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """Write orders of many shops to a topic."""
    with readable_errors(debug=debug), opened_topic(servers, topic, conf or []) as (spark, options):
        columns = [column.format(events=events, keys=keys) for column in _ORDERS]
        orders = spark.range(events).selectExpr(*columns).repartition("key").sortWithinPartitions("id")
        orders.select("key", "value").write.format("kafka").options(**options).option("topic", topic).save()
        out().print(Text(f"{events:,} orders of {min(keys, events):,} shops are in {topic}"))


if __name__ == "__main__":
    typer.run(produce)
