"""The DataFrames of spouts with the columns that were declared, in a classic session or over Spark Connect."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampNTZType

from manager.storage.files import entries
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.pulled_files import FOLDER
from topologies.graph.graph import Graph, SpoutNode
from topologies.io.spouts import FrameSpout
from topologies.spark.sessions import is_over_connect
from windowing.errors import CheckpointError, ConfigError
from windowing.schema import DEFAULT_STREAM


def declared_frame(spark: Any, node: SpoutNode) -> DataFrame:
    """The streaming DataFrame of a spout in this session, with all columns that were declared, and perhaps more: those
    that it lacks are null, and have a default.

    Raises ConfigError where it is none of this session, lacks columns, or has times that Spark and windbolt would read
    in different zones.
    """
    assert isinstance(node.spout, FrameSpout)
    declared = node.outputs[DEFAULT_STREAM]
    frame: DataFrame = node.spout.make(spark)
    _check_stream(node.name, frame, spark)
    absent = [column for column in declared.names if column not in frame.columns]
    missing = [column for column in absent if column not in node.defaults.columns]
    if missing:
        raise ConfigError(
            f"the DataFrame of spout {node.name!r} has no column {', '.join(map(repr, missing))}",
            why=f"it has {', '.join(frame.columns)}, and {', '.join(declared.names)} were declared",
            do="select and rename columns in its function, or declare those that it has",
        )
    zone = spark.conf.get("spark.sql.session.timeZone")
    naive = [field.name for field in frame.schema if isinstance(field.dataType, TimestampNTZType)]
    if zone != "UTC" and set(naive) & set(declared.names):
        raise ConfigError(
            f"spout {node.name!r} has times without a zone ({', '.join(naive)}), and the session is in {zone}",
            why="windbolt reads a time without a zone as UTC, and Spark as in the session's zone",
            do="set spark.sql.session.timeZone to UTC, or convert them to timestamps with a zone",
        )
    for column in from_arrow_schema(declared):
        if column.name in absent:
            null = frame.selectExpr("*", f"NULL AS {quoted(column.name)}")
            frame = null.withColumn(column.name, null[quoted(column.name)].cast(column.dataType))
    return frame


def check_frames(topology: Graph, halves: PairedCheckpoint, *, over_connect: bool) -> None:
    """Raise CheckpointError where a DataFrame was read by the other kind of session before: where a query of Spark's
    has got to, it notes for itself."""
    begun = bool(halves.spark_checkpoint.offsets())
    for name, node in topology.spouts.items():
        if not isinstance(node.spout, FrameSpout):
            continue
        kept = bool(entries(halves.filesystem, f"{halves.root}/{FOLDER}/{name}"))
        if kept != over_connect and (begun or kept):
            before, now = "a classic session", "Spark Connect"
            before, now = (before, now) if over_connect else (now, before)
            raise CheckpointError(
                f"spout {name!r} is a Spark DataFrame, and the checkpoint was made with {before}",
                why=f"a run with {now} would read the DataFrame from its beginning",
                do=f"go on with {before}, or start with a new checkpoint folder (which reads all input again)",
            )


def _check_stream(name: str, frame: Any, spark: Any) -> None:
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise ConfigError(
            f"spout {name!r} made {type(frame).__name__}, which is not a streaming DataFrame",
            do="return spark.readStream...load() from its function",
        )
    if is_over_connect(frame.sparkSession, None) != is_over_connect(spark, None):
        raise ConfigError(
            f"the DataFrame of spout {name!r} is of another session",
            why="one of the two is a session of Spark Connect, and the other a classic one",
            do="run in the session of the DataFrame: spark=frame.sparkSession",
        )


def quoted(name: str) -> str:
    """A column of exactly this name: an unquoted dot would denote a field of a column."""
    inside = name.replace("`", "``")
    return f"`{inside}`"
