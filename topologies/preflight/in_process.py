"""What a run in this process cannot do, and a run on Spark can."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from manager.outside.place_names import root_and_path
from manager.storage.file_systems.files import is_there
from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.object_store import open_uri
from manager.storage.file_systems.storage_errors import naming_owner
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.paths import shown_path
from topologies.io.patterns import candidates, is_pattern, leading_folder
from topologies.io.sinks import FunctionSink
from topologies.io.spouts import FrameSpout
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
            case FileSpout(path) if is_hdfs(shown_path(path)):
                _refuse_unmatched_in_hdfs(name, shown_path(path))
            case FileSpout(path) if "://" in shown_path(path):
                raise ConfigError(
                    f"spout {name!r} reads {path!r}",
                    why="a local run lists files of this machine",
                    do="run on Spark, or copy them to a folder here",
                )
            case FileSpout(path) if not os.path.exists(shown_path(path)):
                _refuse_unmatched(name, path)
            case _:
                continue
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, FunctionSink) and sink.sink.frame == "spark":
            raise ConfigError(
                f"sink {name!r}: its function needs a Spark DataFrame, and a local run has no Spark",
                do="use foreach_batch(function, frame='arrow') or frame='pandas', or run on Spark",
            )


def _refuse_unmatched(name: str, path: str) -> None:
    """A path that is not there has to be a pattern of those that Python knows, in a folder that is there.

    UnreachableError where that cannot be seen.
    """
    if "{" in path:
        raise ConfigError(
            f"spout {name!r} reads {path!r}",
            why="a local run uses Python's patterns, which have no alternatives ({a,b})",
            do="run on Spark, use * and [...], or declare a spout for each",
        )
    if "\\" in path:
        raise ConfigError(
            f"spout {name!r} reads {path!r}",
            why="a local run uses Python's patterns, in which a backslash does not escape a character",
            do="run on Spark, or write that character in brackets, such as [*]",
        )
    candidates(shown_path(path))  # a folder that may not be looked into is not one where nothing is
    if not is_pattern(shown_path(path)):
        raise ConfigError(
            f"spout {name!r}: {path!r} is not there", do="make the folder before the run, or correct the path"
        )
    folder = leading_folder(shown_path(path))
    if not os.path.isdir(folder):
        raise ConfigError(
            f"spout {name!r} reads {path!r}, and {folder!r} is not there",
            why="the run would end successfully without having read anything",
            do="make the folder before the run, or correct the path",
        )


def _refuse_unmatched_in_hdfs(name: str, place: str) -> None:
    """A folder or a pattern in HDFS has to name its NameNode, and its folder has to be there.

    StorageError where that cannot be seen.
    """
    root, inside = root_and_path(place)
    if not urlsplit(root).netloc:
        raise ConfigError(
            f"spout {name!r} reads {place!r}, which names no host",
            why="Spark notes files by the name of their host; a run on Spark that continued would read them again",
            do="name it as fs.defaultFS in core-site.xml does, such as hdfs://shop/in",
        )
    folder = f"/{inside}"
    with naming_owner(f"spout {name!r}"):
        filesystem, _ = open_uri(place)
        if not is_there(filesystem, folder):
            folder = leading_folder(folder)
            if folder == f"/{inside}" or not is_there(filesystem, folder):
                raise ConfigError(
                    f"spout {name!r}: {root.rstrip('/')}{folder} is not there",
                    do="make the folder before the run, or correct the path",
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
