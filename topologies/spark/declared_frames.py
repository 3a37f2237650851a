"""The DataFrames of spouts with the columns that were declared, in a classic session or over Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from manager.remote import is_transient
from topologies.engine.failures import FIX, cause, in_this_process
from topologies.graph.graph import SpoutNode
from topologies.io.spouts import FrameSpout
from topologies.run.options import is_over_connect
from topologies.spark.spark_errors import FROM_JAVA, FROM_SPARK
from windowing.errors import ConfigError, SpoutError, WindboltError
from windowing.schema import DEFAULT_STREAM


def declared_frame(spark: Any, node: SpoutNode) -> DataFrame:
    """The streaming DataFrame of a spout in this session, with all columns that were declared, and perhaps more: those
    that it lacks are null, and have a default.

    Raises ConfigError where it is none of this session, lacks columns, or has some of types that cannot become those
    that were declared with the same values.
    """
    assert isinstance(node.spout, FrameSpout)
    declared = node.outputs[DEFAULT_STREAM]
    frame: DataFrame = _made(node.name, node.spout, spark)
    _check_stream(node.name, frame, spark)
    absent = [column for column in declared.names if column not in frame.columns]
    missing = [column for column in absent if column not in node.defaults.columns]
    if missing:
        raise ConfigError(
            f"the DataFrame of spout {node.name!r} has no column {', '.join(map(repr, missing))}",
            why=f"it has {', '.join(frame.columns)}, and {', '.join(declared.names)} were declared",
            do="select and rename columns in its function, or declare those that it has",
        )
    wanted = from_arrow_schema(declared)
    _check_types(node.name, frame, [column for column in wanted if column.name not in absent])
    for column in wanted:
        if column.name in absent:
            null = frame.selectExpr("*", f"NULL AS {quoted(column.name)}")
            frame = null.withColumn(column.name, null[quoted(column.name)].cast(column.dataType))
    return frame


_TOLD_ELSEWHERE: tuple[type[Exception], ...] = (WindboltError, *FROM_SPARK, *FROM_JAVA)


def _made(name: str, spout: FrameSpout, spark: Any) -> Any:
    """What a user's function returns; what Spark raised in it is told as anywhere else."""
    try:
        return in_this_process(lambda: spout.make(spark))
    except _TOLD_ELSEWHERE:
        raise
    except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
        raise SpoutError(
            f"the function of spout {name!r} failed",
            why=cause(error, ()),
            do=FIX,
            spout=name,
            transient=is_transient(error),
        ) from error


def _check_types(name: str, frame: Any, wanted: Sequence[StructField]) -> None:
    # Its casts are of its own session, whichever the run is in.
    has, zone = frame.schema, frame.sparkSession.conf.get("spark.sql.session.timeZone")
    others = [
        f"{column.name} {has[column.name].dataType.simpleString()}, declared as {column.dataType.simpleString()}"
        for column in wanted
        if not _keeps_values(has[column.name].dataType, column.dataType, in_utc=bool(_UTC.fullmatch(zone)))
    ]
    if others:
        raise ConfigError(
            f"the DataFrame of spout {name!r} has {'; '.join(others)}",
            why="a cast of Spark's would change values: it cuts fractions, takes whole numbers for seconds, the fields "
            f"of structs by their places, and dates and times without a zone for those of the session's zone, {zone}",
            do="declare the types that it has, or wider ones; or convert the columns in the DataFrame, as in "
            "frame.withColumn('ts', F.timestamp_millis('ts')); dates and times without a zone become timestamps in a "
            "session whose spark.sql.session.timeZone is UTC",
        )


def _keeps_values(kind: DataType, wanted: DataType, *, in_utc: bool) -> bool:  # noqa: PLR0911 - one for each kind
    """True if each value of a type stays the same one when Spark casts it to another. ``in_utc``: in a session of that
    zone."""
    match kind, wanted:
        case ArrayType(), ArrayType():
            return _keeps_values(kind.elementType, wanted.elementType, in_utc=in_utc)
        case MapType(), MapType():
            pairs = (kind.keyType, wanted.keyType), (kind.valueType, wanted.valueType)
            return all(_keeps_values(*pair, in_utc=in_utc) for pair in pairs)
        case StructType(), StructType():
            return kind.names == wanted.names and all(
                _keeps_values(one.dataType, other.dataType, in_utc=in_utc)
                for one, other in zip(kind, wanted, strict=True)
            )
        case DecimalType(), DecimalType():
            return kind.scale <= wanted.scale and kind.precision - kind.scale <= wanted.precision - wanted.scale
        case ((ByteType() | ShortType() | IntegerType() | LongType()), DecimalType()):
            return _DIGITS[type(kind)] <= wanted.precision - wanted.scale
        case DecimalType(), (ByteType() | ShortType() | IntegerType() | LongType()):
            return kind.scale == 0 and kind.precision < _DIGITS[type(wanted)]
        case ((DateType() | TimestampNTZType()), TimestampType()):
            return in_utc
        case NullType(), _:
            return True
    return type(wanted) is type(kind) or type(wanted) in _WIDER.get(type(kind), ())


_UTC = re.compile(r"(?:Etc/)?(?:UTC|UCT|GMT|GMT0|Universal|Zulu|Greenwich)|Z|[+-]00:00")
"""The names of this zone: Java's own on a machine may be any of them."""
_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_WIDER: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType, StringType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType, StringType),
    IntegerType: (LongType, DoubleType, StringType),
    LongType: (StringType,),
    FloatType: (DoubleType,),
    BooleanType: (StringType,),
    DateType: (StringType,),
    StringType: (BinaryType,),
    CharType: (StringType,),
    VarcharType: (StringType,),
}
"""Types, each with those that hold all of its values."""


def refuse_endless(name: str, frame: DataFrame, *, once: bool, kept: bool) -> None:
    """Raise ConfigError for a DataFrame of a source that has no end, in a run to the end of the input; and for one that
    cannot be read by one query after the other, where its rows are ``kept``."""
    for source in _sources(frame):
        if source in _ENDLESS and once:
            raise ConfigError(
                f"spout {name!r} reads {source!r}, which has no end, and the run is to end with its input",
                why="it has no rows yet when the run begins, so that there is nothing to read to the end",
                do="say how often to read: run(..., every='10 s') goes on until it is stopped",
            )
        if source == "socket" and kept:
            raise ConfigError(
                f"spout {name!r} reads 'socket', and its rows are kept, as over Spark Connect",
                why="what arrives between two queries of Spark's is lost",
                do="read it in a classic session, and begin a checkpoint there",
            )


_ENDLESS = ("rate", "socket")
"""Sources of Spark's that have nothing when a run begins, and more whenever one waits."""
_SOURCE = re.compile(r"StreamingRelationV2 \S+, (\w+), ")
"""How the text of Spark's plan names a source."""


def _sources(frame: Any) -> Iterator[str]:
    """The names of the sources that a streaming DataFrame reads."""
    if is_over_connect(frame.sparkSession, None):
        yield from _SOURCE.findall(frame._explain_string(extended=True))
        return
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            yield str(leaf.sourceName())


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
