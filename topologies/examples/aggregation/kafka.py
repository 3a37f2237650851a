"""A topic for the example's tools: Spark with the connector, and the topic looked up before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from topologies.cli.run import settings_of
from topologies.io import spouts

Servers = Annotated[str, typer.Option(metavar="HOST:PORT", help="Kafka.")]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")]


@contextmanager
def opened_topic(servers: str, topic: str, conf: Sequence[str]) -> Iterator[tuple[Any, dict[str, str]]]:
    """A session, and the options for the servers; ConfigError where there is no such topic."""
    from topologies.spark.jvm.session import open_session
    from topologies.spark.kafka_frames import read_records

    spout = spouts.kafka(servers, topic)
    spark, ours = open_session(None, settings_of(conf), kafka=True)
    try:
        read_records(spark, topic, spout)
        yield spark, {"kafka.bootstrap.servers": spout.servers}
    finally:
        if ours:
            spark.stop()
