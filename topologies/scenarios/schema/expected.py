"""What a scenario expects to come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from manager.accounts import ACCOUNTS, BESIDE, SHOWN
from topologies.scenarios.schema.scenario_values import EndValue, EventId, Strict, TimeValue
from windowing.errors import ScenarioError
from windowing.suggestions import did_you_mean

WHEREABOUTS = (*ACCOUNTS, "pending")
"""Where a received event can be; the counts of an answer name these, ``received``, ``adjusted`` and ``truncated``."""

METRICS = (*BESIDE, "watermark_delay")
"""What an answer counts beside the accounts."""


def _only(value: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    """The value, whose keys must be among the names."""
    for key in value:
        if key not in names:
            raise ScenarioError(f"expected some of {', '.join(names)}, found {key!r}{did_you_mean(key, names)}")
    return value


Counts = Annotated[
    dict[str, Annotated[int, Field(ge=0)]],
    Field(min_length=1),
    AfterValidator(lambda value: _only(value, ("received", *WHEREABOUTS, *SHOWN))),
]
Metrics = Annotated[dict[str, int | float], Field(min_length=1), AfterValidator(lambda value: _only(value, METRICS))]

DecisionLabel = Literal[
    "accepted",
    "duplicate",
    "adjusted_late",
    "adjusted_out_of_order",
    "late",
    "dropped_late",
    "dropped_out_of_order",
    "early",
    "invalid",
    "watermark",
    "unwindowed",
    "unmatched",
]
"""The decision about an event when it arrived, as answers spell it under ``action``.

``watermark``: it was none, but a watermark of the source; ``unwindowed``: it lies between windows; ``unmatched``: the
end of an edge whose start is not known.
"""


class ExpectedPane(Strict):
    """Which firing of its window it must be; it is compared on the fields that it gives."""

    index: int | None = None
    timing: Literal["early", "on_time", "late"] | None = None
    last: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedPane:
        if not self.given:
            raise ScenarioError("expected some of index, timing, last, found {}")
        return self


class ExpectedWindow(Strict):
    """A window that must fire; it is compared on the fields that it gives."""

    step: str | None = None
    """The step whose window it is; None: the first."""
    bolt: str | None = None
    """The bolt of a topology whose window it is; None: any."""
    start: EndValue | None = None
    end: EndValue | None = None
    events: list[EventId] | None = None
    new: list[EventId] | None = None
    expired: list[EventId] | None = None
    task: int | None = None
    key: Any = None
    kind: int | None = None
    pane: ExpectedPane | None = None
    by: Literal["count", "rule", "timeout", "time", "close", "full"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedWindow:
        if not self.model_fields_set - {"step", "bolt"}:
            raise ScenarioError("expected a window with some of start, end, events, new, expired, found {}")
        lists = {"events", "new", "expired"}
        empty = [name for name, value in self.given.items() if name in lists and value is None]
        if empty:
            raise ScenarioError(f"expected a list for {', '.join(empty)}, found null", do="write [] for none")
        return self


class ExpectedEvent(Strict):
    """An event as it must be taken in; it is compared on the fields that it gives."""

    id: EventId
    time: TimeValue | None = None
    """The time that it is assigned; null where it gets none."""
    action: DecisionLabel | None = None
    watermark: EndValue | None = None
    """The watermark of the bolt after it."""
    mark: EndValue | None = None
    """The mark of its own input, partition or key after it."""


class Includes(Strict):
    """What must be among what comes out, in this order; what else comes is not looked at."""

    windows: list[ExpectedWindow] | None = None
    late: list[EventId] | None = None
    outputs: dict[str, list[dict[str, Any]]] | None = None
    """Rows of sinks; each is compared on the columns that it gives."""

    @model_validator(mode="after")
    def _asks_something(self) -> Includes:
        lists = [self.windows, self.late, *(self.outputs.values() if self.outputs is not None else [])]
        given = [each for each in lists if each is not None]
        if not given or not all(given) or not all(row for rows in (self.outputs or {}).values() for row in rows):
            raise ScenarioError(
                "expected something to be included, found nothing",
                do="name windows, late events or rows, or leave it out; to expect none use windows, late or outputs",
            )
        return self


class Expect(Strict):
    """What must come out; a key that is left out is not checked, one that is given is checked whole."""

    includes: Includes | None = None
    """What must be among it."""

    windows: list[ExpectedWindow] | None = None
    late: list[EventId] | None = None
    watermarks: list[EndValue | None] | None = None
    pending: list[EventId] | None = None
    counts: Counts | None = None
    outputs: dict[str, list[dict[str, Any]]] | None = None
    events: list[ExpectedEvent] | None = None
    clocks: list[EndValue | None] | None = None
    metrics: Metrics | None = None
    """Only those that are named are compared."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected at all."""
        return all(getattr(self, name) is None for name in type(self).model_fields)
