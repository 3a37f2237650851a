"""What every bolt has: declared outputs, and a call before the first event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import pyarrow as pa

from windowing.data.reprs import call, of_fields, one_line, simple_attributes
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import parse_schema


@dataclass(frozen=True)
class TaskContext:
    """What a task knows of itself when it is prepared: its bolt, its number, its run; and what it counts."""

    component: str
    """The name of the bolt in the topology."""
    task: int
    """Which of the bolt's tasks this is, from 0."""
    parallelism: int
    """Number of tasks that the bolt has."""
    run: str = ""
    """Which run of the topology this is: another one after each start."""
    counters: Counter[str] = field(default_factory=Counter, compare=False)
    """What a windowed bolt counts by itself: ``context.counters["declined"] += 1``.

    The totals are in the reports of the run. They are committed with the batch: each call counts once, whatever fails.
    """

    def __repr__(self) -> str:
        return of_fields(self)


class Component:
    """What every bolt has: declared outputs, and a call before the first event."""

    outputs: ClassVar[str | pa.Schema | Mapping[str, str | pa.Schema]] = {}
    """The columns that the bolt emits, ``"user string, revenue double"``; a mapping for several streams."""

    def __repr__(self) -> str:
        return one_line(self._repr_of_call())

    def _repr_of_call(self) -> str:
        """How it was made, as far as that can be told from its attributes."""
        return call(type(self).__name__, **simple_attributes(self))

    def prepare(self, context: TaskContext) -> None:
        """Called before the bolt is given anything, on each task, and again in each micro-batch.

        Open here what cannot be sent to another process. What is kept on ``self`` is gone after the micro-batch;
        a StatefulWindowedBolt's ``state`` stays.
        """

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The bolt as it reads these streams: called once, when the topology is built, with the columns of each.

        For bolts whose own columns follow from those. What it returns is run; a ConfigError is one of the mistakes
        that ``build`` reports.
        """
        return self

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The declared columns of each output stream."""
        if isinstance(self.outputs, Mapping):
            return {stream: parse_schema(schema) for stream, schema in self.outputs.items()}
        return {DEFAULT_STREAM: parse_schema(self.outputs)}
