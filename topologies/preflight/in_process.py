"""What a run in this process cannot do, and a run on Spark can."""

from __future__ import annotations

from urllib.parse import urlsplit

from manager.outside.place_names import root_and_path
from manager.storage.file_systems.hdfs import is_hdfs
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.paths import shown_path
from topologies.io.sinks import FunctionSink
from topologies.io.spouts import FrameSpout
from topologies.preflight.input_paths import refuse_missing
from topologies.run.engine import refuse_in_process
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing.errors import ConfigError


def check_local(topology: Topology, options: RunOptions) -> None:
    """Raise ConfigError for what ``run_local`` cannot run, or not with these options."""
    refuse_in_process(options)
    _refuse_spark(topology)
    _refuse_kafka(topology)


def _refuse_spark(topology: Topology) -> None:
    """DataFrames are Spark's, and so is what lists files that are not on this machine."""
    for name, node in topology.spouts.items():
        match node.spout:
            case FrameSpout():
                raise ConfigError(
                    f"spout {name!r} is a Spark DataFrame",
                    why="a local run has no Spark",
                    do="run on Spark, or replay scenarios of the topology",
                )
            case FileSpout() as spout:
                _refuse_stores(name, spout)
                refuse_missing(name, spout)
            case _:
                continue
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, FunctionSink) and sink.sink.frame == "spark":
            raise ConfigError(
                f"sink {name!r}: its function needs a Spark DataFrame, and a local run has no Spark",
                do="use foreach_batch(function, frame='arrow') or frame='pandas', or run on Spark",
            )


def _refuse_stores(name: str, spout: FileSpout) -> None:
    """A path in HDFS has to name its NameNode; other file systems are Spark's."""
    for path in spout.paths:
        shown = shown_path(path)
        if is_hdfs(shown) and not urlsplit(root_and_path(shown)[0]).netloc:
            raise ConfigError(
                f"spout {name!r} reads {path!r}, which names no host",
                why="files are noted by the name of their host; a run on Spark that continued would read them again",
                do="name it as fs.defaultFS in core-site.xml does, such as hdfs://shop/in",
            )
        if "://" in shown and not is_hdfs(shown):
            raise ConfigError(
                f"spout {name!r} reads {path!r}",
                why="a local run lists files of this machine",
                do="run on Spark, or copy them to a folder here",
            )


def _refuse_kafka(topology: Topology) -> None:
    """Kafka is reached through Spark's connector."""
    found = [f"spout {name!r}" for name, node in topology.spouts.items() if isinstance(node.spout, KafkaSpout)]
    found += [f"sink {name!r}" for name, node in topology.sinks.items() if isinstance(node.sink, KafkaSink)]
    if found:
        raise ConfigError(
            f"Kafka in a local run: {', '.join(found)}",
            why="Spark's connector reads and writes Kafka, and a local run has no Spark",
            do="run on Spark; to try out the bolts, replay scenarios, or read files and write to memory",
        )
