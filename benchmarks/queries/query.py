"""A query: how windbolt is asked, how Spark is, and what DuckDB says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.workloads import Columns, Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.arms.arm import Job
    from topologies.graph.topology import Topology


@dataclass(frozen=True)
class Query:
    """One query. The bolt that reads the events is named ``bolt``."""

    name: str
    title: str
    topology: Callable[[Job], Topology]
    spark: Callable[[SparkSession, Job], DataFrame]
    sql: str
    """Over a table ``events``, whose times are whole milliseconds; ``{due}`` is the end of the last window that is due.
    Its rows are in order of ``order``, and ``until`` is in microseconds."""
    goals: tuple[float, float]
    """How many times as fast as Spark's own: on windbolt's own workers, and as Spark's tasks."""
    order: tuple[str, ...] = ("until", "key")
    due_only: bool = False
    """True if arms may emit rows of later windows, which are not compared then: of sessions that end within a second,
    and of Spark's join, which waits for no window."""
    advised: Callable[[Job], Topology] | None = None
    """The same with what the guide advises where speed matters, if there is such a thing."""

    def answer(self, events: Events) -> Columns:
        """Returns DuckDB's answer."""
        duckdb: Any = import_module("duckdb")
        connection = duckdb.connect()
        connection.register("events", pa.table(events.columns))
        found = connection.sql(self.sql.format(due=events.last_end * 1_000)).to_arrow_table()
        connection.close()
        return {name: column.to_numpy() for name, column in zip(found.column_names, found.columns, strict=True)}
