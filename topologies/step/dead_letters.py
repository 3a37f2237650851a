"""What becomes of messages that fail (UH-31): they go on as they came, with the reason; or they stop the run."""

from __future__ import annotations

import pyarrow as pa

from topologies.step.columns import OUTPUT, Row
from windowing.bolt import BatchBolt
from windowing.errors import DataError
from windowing.rows import Rows

REASON, TOPIC, PARTITION, OFFSET = "windbolt-reason", "windbolt-topic", "windbolt-partition", "windbolt-offset"


class DeadLetters(BatchBolt):
    """Messages that failed go to the topic of the error section, unchanged but for further headers.

    ``windbolt-reason`` says why, and ``windbolt-topic``, ``-partition`` and ``-offset`` where the message came from.
    """

    outputs = OUTPUT

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def execute(self, batch: pa.Table) -> Rows:
        """Called with messages that failed."""
        for row in batch.to_pylist():
            known = {REASON: row["_reason"], TOPIC: row["topic"], PARTITION: row["partition"], OFFSET: row["offset"]}
            further = [{"key": key, "value": str(value).encode()} for key, value in known.items() if value is not None]
            kept = [each for each in row["headers"] or () if each["key"] not in known]
            yield {"topic": self.topic, "key": row["key"], "value": row["value"], "headers": kept + further}


class StopAtFailure(BatchBolt):
    """The first message that fails stops the run, before its batch is committed: nothing is lost."""

    outputs = OUTPUT

    def __init__(self, step: str) -> None:
        self.step = step

    def execute(self, batch: pa.Table) -> Rows:
        """Called with messages that failed; raises DataError."""
        row = batch.slice(0, 1).to_pylist()[0]
        others = f"; {batch.num_rows - 1} more failed with it" if batch.num_rows > 1 else ""
        raise DataError(
            f"step {self.step!r}: {_place(row)} failed: {row['_reason']}{others}",
            why="the step has no error section that would take it, and nothing may be lost",
            do='give one, error: {name: "deadletter", topic: "deadletter", config: {...}}, and run again',
        )


def _place(row: Row) -> str:
    if row["partition"] is None and row["offset"] is None:
        return f"a message of topic {row['topic']!r}"
    return f"the message {row['topic']!r}, partition {row['partition']}, offset {row['offset']}"
