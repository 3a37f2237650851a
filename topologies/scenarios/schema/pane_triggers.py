"""The triggers of panes as scenario files write them: ``3``, ``10s``, ``{event_time: 5s}``, ``{any: [3, 10s]}``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

from pydantic import field_validator, model_validator

from topologies.scenarios.schema.scenario_values import CountValue, Listed, Positive
from windowing.errors import ScenarioError
from windowing.settings.panes import PaneTrigger, after_clock, after_count, after_event_time
from windowing.time.durations import Count, Duration, as_every

_KINDS = ("count", "clock", "event_time", "any", "all")


class TriggerSetting(Listed):
    """When a window fires beside its end, by one of ``count``, ``clock``, ``event_time``, ``any`` and ``all``."""

    count: CountValue | None = None
    clock: Positive | None = None
    event_time: Positive | None = None
    any: list[TriggerSetting] | None = None
    all: list[TriggerSetting] | None = None
    even_unchanged: bool = False
    once: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """A number is one of events, a text a duration of the clock."""
        if isinstance(value, Mapping | TriggerSetting):
            return value
        if isinstance(value, str | int | Duration | Count) and not isinstance(value, bool):
            every = as_every(value, "a firing")
            return {"count" if isinstance(every, Count) else "clock": every}
        raise ScenarioError(
            f"expected a number of events, a duration of the clock or a trigger, found {value!r}",
            do="write 3, 10s, {event_time: 5s} or {any: [3, 10s]}",
        )

    @field_validator("any", "all")
    @classmethod
    def _several(cls, value: list[TriggerSetting] | None) -> list[TriggerSetting] | None:
        if value is not None and len(value) < 2:
            raise ScenarioError(f"expected two triggers or more, found {len(value)}", do="write [3, 10s]")
        return value

    @model_validator(mode="after")
    def _one(self) -> TriggerSetting:
        named = [name for name in _KINDS if getattr(self, name) is not None]
        if len(named) != 1:
            raise ScenarioError(f"expected one of {', '.join(_KINDS)}, found {' and '.join(named) or 'none'}")
        if self.even_unchanged and named[0] not in ("clock", "event_time"):
            raise ScenarioError(
                f"{named[0]} with even_unchanged",
                why="a trigger fires unchanged windows as time advances",
                do="write it beside clock or event_time",
            )
        return self

    @property
    def trigger(self) -> PaneTrigger:
        """As bolts are given it."""
        return self._every.once() if self.once else self._every

    @property
    def _every(self) -> PaneTrigger:
        if self.count is not None:
            return after_count(self.count)
        if self.clock is not None:
            return after_clock(self.clock, even_unchanged=self.even_unchanged)
        if self.event_time is not None:
            return after_event_time(self.event_time, even_unchanged=self.even_unchanged)
        if self.any is not None:
            return reduce(or_, (each.trigger for each in self.any))
        assert self.all is not None  # _one
        return reduce(and_, (each.trigger for each in self.all))
