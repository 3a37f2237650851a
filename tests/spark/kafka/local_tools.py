"""What the tests of Kafka in local runs share: runs without Spark, and runs that end in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from servers.kafka import Kafka
from tests.spark.tools import Crash
from topologies import TopologyBuilder, run_local, sinks, spouts
from topologies.graph.topology import Topology
from topologies.io.sinks import MemorySink
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.run.summary import Summary


def run(topology: Topology, checkpoint: Path | None, **options: Any) -> Summary:
    """Run in this process."""
    return run_local(topology, RunOptions(None if checkpoint is None else str(checkpoint), **options))


def run_until(topology: Topology, checkpoint: Path, crash: Callable[[LocalRun, str], bool]) -> None:
    """Run until ``crash`` says of a phase that all ends here; nothing is left then but what lies on the disk."""
    attempt = LocalRun(topology, RunOptions(str(checkpoint)))

    def hook(phase: str) -> None:
        if crash(attempt, phase):
            raise Crash(phase)

    try:
        with attempt:
            attempt.micro_batch.hook = hook
            attempt.run()
    except Crash:
        return
    raise AssertionError("the run came to its end")


def at_phase(batch: int, wanted: str) -> Callable[[LocalRun, str], bool]:
    """A crash as a phase of the step after ``batch - 1`` begins."""
    return lambda attempt, phase: phase == wanted and attempt.micro_batch.manifest.batch == batch - 1


def reading(**found: Any) -> tuple[Topology, dict[str, MemorySink]]:
    """Spouts, and what they and their error streams deliver."""
    builder, out = TopologyBuilder("reading"), {}
    for name, spout in found.items():
        builder.set_spout(name, spout)
        for stream in ("default", "errors"):
            label = name if stream == "default" else f"{name}-errors"
            out[label] = sinks.memory()
            builder.set_sink(f"to-{label}", out[label]).from_(name, stream)
    return builder.build(), out


def read(kafka: Kafka, topic: str, checkpoint: Path | None, **more: Any) -> list[dict[str, Any]]:
    """The rows of a run to the present end of a topic."""
    topology, out = reading(records=spouts.kafka(kafka.servers, topic, **more))
    run(topology, checkpoint, keep_open=True)
    return out["records"].rows


def values(kafka: Kafka, topic: str, checkpoint: Path | None, **more: Any) -> list[Any]:
    """The values of these rows, as text."""
    return [row["value"] for row in read(kafka, topic, checkpoint, value="text", **more)]
