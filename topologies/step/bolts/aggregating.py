"""The second bolt of a step: rules turn the events of a fired window into new events (UH-24 to UH-32)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from manager.keyed.rule_cache import kept_json
from topologies.io.messages import Unreadable
from topologies.step.bolts.calling import event_of
from topologies.step.bolts.rule_events import WindowEvents
from topologies.step.bolts.sending import Sender, Unsendable
from topologies.step.bolts.step_columns import (
    FAILING,
    ID,
    KEY,
    MESSAGE,
    REASON,
    MessageRow,
    message_rows,
    reason_of,
    sent,
    with_columns_of,
)
from topologies.step.config.step_values import Details
from topologies.step.rules import Aggregation, Event, Outputs, Rule, RuleError, as_outputs
from topologies.step.rules.rule_errors import shown
from windowing.bolts.component import TaskContext
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.data.returned_rows import DEFAULT_STREAM, Emit, EmittedRows
from windowing.data.schema import parse_schema
from windowing.settings.triggers import FiredBy
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from topologies.io.messages import MessageFormat

_Made = tuple[list[tuple[str, MessageRow]], dict[str, Any], tuple[str, ...], bool]
"""The messages that rules made, by stream; the cache they left; what to count; and whether the messages are those that
came in."""


class AggregateMessages(StatefulWindowedBolt):
    """Calls the rules with the messages of a window, and writes what they make: all of it, or nothing.

    If any of that fails, the window's messages go to the stream ``failed``, each with the reason, and the rules' cache
    stays as it was.
    """

    state_types: ClassVar = {"caches": dict, "run": str}
    state_keys: ClassVar = {"caches": KEY, "run": ()}

    def __init__(
        self,
        read: MessageFormat,
        rule: Rule,
        sender: Sender,
        *,
        variables: Mapping[str, Any] | None = None,
        keeps_cache: bool = False,
        details: Details = "full",
        step: str = "",
    ) -> None:
        """``variables``: loadedVariables. ``keeps_cache``: whether the cache survives restarts (UH-30). ``details``:
        how much to report of exceptions. ``step``: the name of the step that this bolt is a part of."""
        self.read, self.rule, self.sender = read, rule, sender
        self.variables = dict(variables or {})
        self.keeps_cache, self.details, self.step = keeps_cache, details, step
        self.columns = parse_schema(f"{MESSAGE}, {KEY} string")
        self.events = WindowEvents(read)
        self.counters: Counter[str] = Counter()

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Failed messages keep all columns that they came with."""
        return with_columns_of(self, inputs)

    @property
    def counts_answers(self) -> bool:
        """It counts what its rules answered."""
        return True

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The streams: messages of the destination, of each branch, and failed ones."""
        failed = self.columns.append(pa.field(REASON, pa.string()))
        streams = (DEFAULT_STREAM, *(way.stream for way in self.sender.branches.values()))
        return {**dict.fromkeys(streams, sent(self.columns)), FAILING: failed}

    def prepare(self, context: TaskContext) -> None:
        """Called before the first window of a batch. A cache that is not kept is lost at a restart."""
        self.counters = context.counters
        if not self.keeps_cache and self.state["run"] != context.run:
            self.state = {**self.initial_state(), "run": context.run}

    def forget(self, key: str) -> None:
        """Called when a key is forgotten after being empty for long enough (UH-22): its cache is dropped."""
        self.state["caches"].pop(key, None)

    def execute(self, window: TupleWindow) -> EmittedRows:
        """Called when a window fires."""
        ids = window.table.column(ID).to_pylist() if ID in self.columns.names else []
        key, start = str(window.key), window.start_timestamp
        lasted = 0 if start is None else max(window.end_timestamp - start, 0)
        kept_before = self.state["caches"].get(key)
        cache = deepcopy(kept_before) if kept_before else {}
        variables = deepcopy(self.variables) if self.variables else {}
        call = Aggregation(key, lasted // 1_000, 0, cache, variables)
        call.full = window.fired_by is FiredBy.FULL
        try:
            messages, kept, counted, unchanged = self._made(window, call)
        except (RuleError, Unreadable) as error:
            reasons = pa.array([reason_of(error, self.details)] * window.table.num_rows, pa.string())
            yield Emit(window.table.append_column(REASON, reasons), stream=FAILING)
            return
        if kept:
            self.state["caches"][key] = kept
        else:
            self.state["caches"].pop(key, None)
        self.counters.update(counted)
        names = _names(ids, len(messages), unchanged=unchanged) if ids else []
        for index, (stream, message) in enumerate(messages):
            yield Emit({**message, ID: names[index]} if names else message, stream=stream)

    def _made(self, window: TupleWindow, call: Aggregation) -> _Made:
        """The messages that the rules make of those of a window."""
        events = self.events.of(window)
        call.count = len(events)
        return self.rule.converted(self._answered, self.rule(list(events), call), window, call, events)

    def _answered(self, returned: Any, window: TupleWindow, call: Aggregation, events: list[Event]) -> _Made:
        """The messages of an answer."""
        made = as_outputs(returned, call, events)
        return list(self._messages(window, made)), _kept(call.cache), made.counted, made.unchanged

    def _messages(self, window: TupleWindow, made: Outputs) -> Iterator[tuple[str, MessageRow]]:
        if not made.unchanged:
            yield from map(self.sender.message, made.outs)
            return
        same = self.read == self.sender.messages
        for row, out in zip(message_rows(window.table), made.outs, strict=True):
            event = event_of(row, self.read)  # read again: rules may have modified what they were given
            yield self.sender.unchanged(out, row, event, same_format=same)


def _names(ids: list[str], count: int, *, unchanged: bool) -> list[str]:
    """Ids, for tracing, of the messages made of others: ``e1+e2``; of several ``e1+e2.1`` and so on."""
    if unchanged:
        return ids
    made = "+".join(ids)
    return [made] if count == 1 else [f"{made}.{number}" for number in range(1, count + 1)]


def _kept(cache: object) -> dict[str, Any]:
    """The cache in the form that its checkpoint restores. Raises Unsendable where it cannot be stored."""
    if type(cache) is dict and not cache:
        return cache
    if not isinstance(cache, dict):
        raise Unsendable(f"the cache is {shown(cache)}, and must be a dict")
    try:
        return kept_json(cache)[1]
    except (TypeError, ValueError) as error:
        raise Unsendable(f"the cache cannot be kept as JSON: {error}") from None
