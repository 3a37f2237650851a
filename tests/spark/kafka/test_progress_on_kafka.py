"""What Spark's progress shows of records that the driver has read itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.kafka import Kafka
from tests.spark.test_sources import progress
from tests.spark.tools import run
from windbolt import TopologyBuilder, sinks, spouts

pytestmark = pytest.mark.usefixtures("spark")


def test_sparks_progress_counts_records_by_topic(kafka: Kafka, tmp_path: Path) -> None:
    builder = TopologyBuilder("counted")
    for name, count in (("first", 5), ("second", 3)):
        topic = kafka.topic(f"counted-{name}", 2)
        for partition in (0, 1):
            kafka.produce(topic, ["a record"] * count, partition)
        builder.set_spout(name, spouts.kafka(kafka.servers, topic))
        builder.set_sink(f"out-{name}", sinks.discard()).from_(name)
    with progress() as said:
        run(builder.build(), tmp_path / "checkpoint")
    assert [[source["numInputRows"] for source in each["sources"]] for each in said] == [[10, 6]]
