"""A union: several streams as one, in order of time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import pyarrow as pa

from windowing.bolts.operators import Operator
from windowing.bolts.ready.columns_by_name import unified
from windowing.calls.checked import checked_value
from windowing.data.returned_rows import DEFAULT_STREAM, EmittedRows
from windowing.errors import ConfigError
from windowing.window import TupleWindow


class Union(Operator):
    """The events of all its input streams, in order of time, their columns unchanged (SI-23).

    An event is released when the watermark, the least of the marks of all inputs, is past its time, which is also the
    time that it is emitted with. A stream that lacks a column of another has nulls there. Events of equal time come in
    order of arrival.

        builder.set_bolt("all", Union().with_timestamp_field("ts")).global_grouping("web").global_grouping("shop")

    ConfigError for ``with_lifetime``: an event is released by its timestamp alone, however long it lasts.
    """

    _schema: pa.Schema | None = None

    @checked_value
    def __init__(self) -> None:
        """It takes no arguments; its columns come from its inputs."""

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Its columns are those of its inputs; where types differ, ``build`` says so."""
        bound = copy(self)
        schema = unified(inputs)
        bound._schema = next(iter(inputs.values())) if schema is None else schema
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        return {} if self._schema is None else {DEFAULT_STREAM: self._schema}

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.table

    def _with(self, **changes: Any) -> Self:
        if changes.get("lifetime") is not None:
            raise ConfigError(
                f"{type(self).__name__} of events with lifetimes",
                why="it orders events by their starts and does not handle their ends",
                do="call with_lifetime on the bolt that reads its output",
            )
        return super()._with(**changes)
