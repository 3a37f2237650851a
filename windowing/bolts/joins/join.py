"""What joins of two streams have in common: their keys, and the columns of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import ClassVar, Self

import pyarrow as pa

from windowing.bolts.joins.join_columns import (
    END,
    LEFT,
    RIGHT,
    START,
    JoinColumn,
    On,
    check_chosen,
    check_inputs,
    check_key_types,
    check_moments,
    check_rename,
    chosen,
    named_columns,
    read_keys,
)
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import parse_schema


class Join(WindowedBolt):
    """A bolt whose rows are made of a left and a right event with equal keys."""

    left_only = False
    """Whether its rows have the columns of left events alone."""
    usual: ClassVar[Mapping[str, str | None]] = {START: None, END: None}
    """The columns of the start and the end where nobody names them."""

    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        outputs: str | pa.Schema | None,
        rename: str,
        start: str | None,
        end: str | None,
    ) -> None:
        self.left, self.right, self.keys = left, right, read_keys(on, left, right)
        check_rename(rename)
        check_moments(start=start, end=end)
        self._rename, self._start, self._end = rename, start, end
        self._wanted = None if outputs is None else parse_schema(outputs)
        if self._wanted is not None:
            asked = {START: start, END: end}
            check_chosen({moment: name for moment, name in asked.items() if name != self.usual[moment]}, self._wanted)
        self._columns: dict[str, JoinColumn] = {}

    @property
    def rows_are_of_events(self) -> bool:
        return True

    @property
    def takes_retractions(self) -> bool:
        return False

    @property
    def keys_by_stream(self) -> dict[str, tuple[str, ...]]:
        """The key columns of each of the two streams."""
        return {self.left: self.keys.left, self.right: self.keys.right}

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The join with its columns; ConfigError where they cannot be."""
        check_inputs(inputs, self.left, self.right, self.keys)
        check_key_types(inputs[self.left], inputs[self.right], (self.left, self.right), self.keys)
        columns = named_columns(
            inputs, {LEFT: self.left, RIGHT: self.right}, self.keys, self._rename,
            moments={START: self._start, END: self._end}, without=frozenset({self.settings.watermark_field}),
            left_only=self.left_only,
        )  # fmt: skip
        bound = copy(self)
        bound._columns = columns if self._wanted is None else chosen(columns, self._wanted)
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        if self._wanted is not None:
            return {DEFAULT_STREAM: self._wanted}
        fields = [pa.field(name, column.kind) for name, column in self._columns.items()]
        return {DEFAULT_STREAM: pa.schema(fields)} if fields else {}
