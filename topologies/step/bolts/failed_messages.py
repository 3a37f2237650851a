"""Handles failed messages (UH-31): they are passed on unchanged with the reason, or they stop the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import pyarrow as pa

from topologies.io.dead_letters import OFFSET, PARTITION, REASON, TOPIC, fit_to_limit, with_headers
from topologies.step.bolts.step_columns import ID, MESSAGE, OUTPUT, MessageRow, header_texts, sent, with_columns_of
from windowing.bolts.plain_bolts import BatchBolt
from windowing.data.returned_rows import DEFAULT_STREAM, EmittedRows
from windowing.data.schema import parse_schema
from windowing.errors import DataError


class DeadLetters(BatchBolt):
    """Sends failed messages to the error section's topic or step, unchanged except for additional headers.

    ``windbolt-reason`` says why, and ``windbolt-topic``, ``-partition`` and ``-offset`` where the message came from.
    One that is larger than the topic accepts is cut (``topologies.io.dead_letters.fit_to_limit``).
    """

    def __init__(self, topic: str, limit: int | None = None, *, again: bool = False) -> None:
        """``limit``: maximum size of a message there in bytes; None for no limit. ``again``: all messages have failed
        before, in another step, and already say where they came from."""
        self.topic, self.limit, self.again = topic, limit, again
        self.columns = parse_schema(MESSAGE)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The columns of failed messages are passed on."""
        return with_columns_of(self, inputs)

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Messages to be sent."""
        return {DEFAULT_STREAM: sent(self.columns)}

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with failed messages."""
        for row in batch.to_pylist():
            origin = {TOPIC: row["topic"], PARTITION: row.get("partition"), OFFSET: row.get("offset")}
            if self.again:
                earlier = header_texts(row["headers"])
                origin = {name: earlier.get(name) for name in origin}
            headers = with_headers(row["headers"], {REASON: row["_reason"], **origin})
            letter = {"topic": self.topic, "key": row["key"], "value": row["value"], "headers": headers}
            named = {ID: row[ID]} if ID in self.columns.names else {}
            yield {**fit_to_limit(letter, self.limit), **named}


class StopAtFailure(BatchBolt):
    """Stops the run at the first failed message, before its batch is committed: nothing is lost."""

    outputs = OUTPUT

    def __init__(self, step: str) -> None:
        self.step = step

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with failed messages; raises DataError."""
        row = batch.slice(0, 1).to_pylist()[0]
        others = f"; {batch.num_rows - 1} more failed with it" if batch.num_rows > 1 else ""
        raise DataError(
            f"step {self.step!r}: {_place(row)} failed: {row['_reason']}{others}",
            why="the step has no error section, and windbolt loses no message",
            do='add one, error: {name: "deadletter", topic: "deadletter", config: {...}}, and rerun',
        )


def _place(row: MessageRow) -> str:
    if row.get("partition") is None and row.get("offset") is None:
        return f"a message of topic {row['topic']!r}"
    return f"the message {row['topic']!r}, partition {row['partition']}, offset {row['offset']}"
