"""What the tests of Kafka in local runs share: runs without Spark, and runs that end in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servers.kafka import Kafka
from tests.spark.kafka.kafka_shop import reading
from tests.spark.tools import Ending, crashed
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import run_local, spouts


def run(topology: Topology, checkpoint: Path | None, **options: Any) -> Summary:
    """Run in this process."""
    return run_local(topology, RunOptions(None if checkpoint is None else str(checkpoint), **options))


def run_until(topology: Topology, checkpoint: Path, crash: Ending[LocalRun]) -> None:
    """Run until ``crash`` says of a phase that all ends here; nothing is left then but what lies on the disk."""
    crashed(LocalRun(topology, RunOptions(str(checkpoint))), crash)


def read(kafka: Kafka, topic: str, checkpoint: Path | None, **more: Any) -> list[dict[str, Any]]:
    """The rows of a run to the present end of a topic."""
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, **more))
    run(topology, checkpoint, keep_open=True)
    return out["records"].rows


def values(kafka: Kafka, topic: str, checkpoint: Path | None, **more: Any) -> list[Any]:
    """The values of these rows, as text."""
    return [row["value"] for row in read(kafka, topic, checkpoint, value="text", **more)]
