"""The first bolt of a step: each message is read, and its key computed (UH-4 to UH-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from topologies.io.messages import Unreadable
from topologies.step.bolts.event_key import NoKey, key_of, keys_at_once
from topologies.step.bolts.rule_events import read_messages
from topologies.step.bolts.step_columns import (
    KEY,
    MESSAGE,
    REASON,
    UNREADABLE,
    MessageRow,
    message_rows,
    reason_of,
    with_columns_of,
)
from topologies.step.config.key_section import DslKey, KeySection
from topologies.step.config.step_values import Details
from topologies.step.rules import Event, Rule, RuleError, as_key
from windowing.bolts.plain_bolts import BatchBolt
from windowing.data.returned_rows import DEFAULT_STREAM, Emit, EmittedRows
from windowing.data.schema import parse_schema

if TYPE_CHECKING:
    from topologies.io.messages import MessageFormat


class ReadMessages(BatchBolt):
    """Gives messages their key; unreadable ones, and those without a key, go to another stream. The bytes stay
    unchanged."""

    refused_stream = UNREADABLE

    def __init__(
        self, messages: MessageFormat, key: KeySection, rule: Rule | None = None, details: Details = "full"
    ) -> None:
        """``rule`` computes keys of type dsl. ``details``: how much to report of exceptions."""
        self.messages, self.key, self.rule, self.details = messages, key, rule, details
        self.columns = parse_schema(MESSAGE)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """All columns of a message are passed on."""
        return with_columns_of(self, inputs)

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The incoming columns with the key; for failed messages, with the reason as well."""
        keyed = self.columns.append(pa.field(KEY, pa.string()))
        return {DEFAULT_STREAM: keyed, UNREADABLE: keyed.append(pa.field(REASON, pa.string()))}

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with incoming messages."""
        keys: list[str | None] = []
        failed: dict[int, str] = {}
        for event, key in zip(read_messages(batch, self.messages), self._keys(batch), strict=True):
            try:
                if isinstance(event, Unreadable):
                    raise event
                keys.append(key if isinstance(key, str) else key(event))
            except (Unreadable, NoKey, RuleError) as error:
                keys.append(None)
                failed[len(keys) - 1] = reason_of(error, self.details)
        keyed = batch.append_column(KEY, pa.array(keys, pa.string()))
        if not failed:
            return keyed
        bad = np.array(list(failed), np.int64)
        good = np.delete(np.arange(batch.num_rows), bad)
        refused = keyed.take(pa.array(bad)).append_column(REASON, pa.array(list(failed.values()), pa.string()))
        return [Emit(keyed.take(pa.array(good))), Emit(refused, stream=UNREADABLE)]

    def _keys(self, batch: pa.Table) -> Iterator[str | Callable[[Event], str]]:
        """The key of each message, or a function that returns it for the event, and may raise NoKey or RuleError."""
        if isinstance(self.key, DslKey):
            return repeat(self._by_rule, batch.num_rows)
        keys = keys_at_once(self.key, batch)
        if keys is not None:
            return iter(keys)
        return (partial(self._by_columns, row) for row in message_rows(batch))

    def _by_columns(self, row: MessageRow, event: Event) -> str:
        return key_of(self.key, row, lambda: self._by_rule(event))

    def _by_rule(self, event: Event) -> str:
        assert self.rule is not None
        return self.rule.converted(as_key, self.rule(event))
