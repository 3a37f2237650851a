"""A scenario as files hold it: a bolt or a topology, steps in order, and what they must lead to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from policies.protocol import Policy
from topologies.scenarios.schema.bare_columns import Column, cell, columns_in, columns_of, moment_of
from topologies.scenarios.schema.expected import Expect
from topologies.scenarios.schema.named_policies import Part, load_policy
from topologies.scenarios.schema.scenario_bolt import bare_bolt, imports_of
from topologies.scenarios.schema.scenario_values import PartitionNames, Strict, TextValue
from topologies.scenarios.schema.settings import BoltSettings
from topologies.scenarios.schema.step_messages import SPOUT, problems
from topologies.scenarios.schema.steps import ClockStep, CloseStep, EventStep, ExpectStep, ScenarioStep
from windowing.errors import ConfigError, ScenarioError, WindboltError
from windowing.settings import WindowSettings


class Scenario(Strict):
    """Steps for a bolt or a topology, and what they must lead to (unknown keys are errors, ``meta`` is free).

    Building one fills what files may leave out: the stream of each event where there is one stream, and the
    id of each event. Everything that is wrong with the steps is reported together, with its place (from 0).
    """

    name: TextValue
    meta: dict[str, Any] = Field(default_factory=dict)
    bolt: BoltSettings | None = None
    topology: TextValue | None = None
    step: dict[str, Any] | TextValue | None = None
    """An aggregation step: what its file says, or the path of the file, from the folder of the scenario."""
    streams: list[TextValue] = Field(default_factory=list)
    partitions: PartitionNames | None = None
    """The values of the bolt's partition column that exist, on every stream or per stream."""
    steps: list[ScenarioStep]
    expect: Expect | None = None

    _folder: Path = PrivateAttr(default_factory=Path)
    _begins: int = PrivateAttr(default=0)

    @model_validator(mode="after")
    def _complete(self) -> Scenario:
        given = [name for name in ("bolt", "topology", "step") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ScenarioError(
                f"expected one of bolt, topology and step, found {' and '.join(given) or 'none'}",
                do="give bolt: {...} for a bolt alone, topology: file.py:name for your own, step: file.conf for a step",
            )
        if self.step is not None and not self.streams:
            self.__dict__["streams"] = [SPOUT]
        if self.bolt is not None and not self.streams:
            self.__dict__["streams"] = ["s1"]
        if len(set(self.streams)) != len(self.streams):
            raise ScenarioError(f"streams: a stream is named twice in {self.streams}")
        self._check_rules()
        self.__dict__["steps"] = list(self._filled())
        found = [*self._stream_problems(), *self._clock_problems(), *self._event_problems(), *self._ends()]
        if found:
            raise ScenarioError("\n".join(f"steps[{at}]{text}" for at, text in sorted(found)))
        return self

    @property
    def midway(self) -> dict[str, Scenario]:
        """The scenarios that end at each ``expect`` among the steps, with what it expects, by its place in the file."""
        found = {}
        for at, step in enumerate(self.steps):
            if isinstance(step, ExpectStep):
                found[f"steps[{at}]"] = prefix = self.model_copy(
                    update={"steps": _happens(self.steps[:at]), "expect": step.expect}
                )
                prefix._begins = self.first_clock
        return found

    @property
    def first_clock(self) -> int:
        """What the clock is at first: what it will be when it first moves, since no time has passed before."""
        clocks = (step.moved for step in self.steps if isinstance(step, EventStep | ClockStep))
        return next((clock for clock in clocks if clock is not None), self._begins)

    @property
    def folder(self) -> Path:
        """Where the scenario lies; paths that it names begin there."""
        return self._folder

    def at(self, folder: Path) -> Scenario:
        """The scenario as one that lies in a folder."""
        self._folder = folder
        return self

    def with_stream(self, stream: str) -> Scenario:
        """The scenario with this as the stream of each event that names none."""
        steps = [
            step.model_copy(update={"stream": step.stream or stream}) if isinstance(step, EventStep) else step
            for step in self.steps
        ]
        return self.model_copy(update={"steps": steps})

    @cached_property
    def rules(self) -> WindowSettings:
        """What the bolt's settings come to, those of its preset among them; the defaults for a topology."""
        return WindowSettings() if self.bolt is None else bare_bolt(self.bolt, partitions=self.partitions).settings

    @property
    def names_policies(self) -> bool:
        """Whether the bolt has policies of the user's own."""
        return self.bolt is not None and (self.bolt.eviction is not None or self.bolt.trigger is not None)

    @cached_property
    def policies(self) -> dict[str, Policy]:
        """The policies that the bolt names, by ``eviction`` and ``trigger``. ScenarioError where they cannot be used.

        Ask for them once the folder of the scenario is known.
        """
        if self.bolt is None:
            return {}
        named = {"eviction": self.bolt.eviction, "trigger": self.bolt.trigger}
        parts: list[Part] = ["eviction", "trigger"]
        return {part: load_policy(part, text, self._folder) for part in parts if (text := named[part]) is not None}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns of a bare bolt's events, beside ``id``: with policies all fields that they have."""
        by_rules = columns_of(self.rules)
        if not self.names_policies:
            return by_rules
        return {**columns_in(step.event for step in self.event_steps), **by_rules}

    @property
    def event_steps(self) -> list[EventStep]:
        """The events in the order of their arrival."""
        return [step for step in self.steps if isinstance(step, EventStep)]

    @property
    def is_event_time(self) -> bool:
        """Whether the bolt reads its time from a field (false for a topology, whose bolts may differ)."""
        return self.time_field is not None

    @property
    def time_field(self) -> str | None:
        """The field from which the bolt reads its time: its timestamp, or in Azure its arrival (AZ-1)."""
        if self.bolt is None or self.bolt.timestamp_field is not None:
            return None if self.bolt is None else self.bolt.timestamp_field
        arrival = self.rules.arrival
        return arrival.field if arrival is not None and self.rules.arrival_is_time else None

    @property
    def has_clock(self) -> bool:
        """Whether some step says what the clock is."""
        return any(isinstance(step, EventStep | ClockStep) and step.moved is not None for step in self.steps)

    def event_time(self, step: EventStep) -> int | None:
        """An event's own time in microseconds; None where it has none, or one outside the years 1 to 9999."""
        field = self.time_field
        value = step.event.get(field) if field else None
        if value is None:
            return None
        return moment_of(value)

    def is_watermark(self, step: EventStep) -> bool:
        """Whether a step is not an event, but a watermark that the source puts in."""
        field = self.rules.watermark_field
        return field is not None and step.event.get(field) is not None

    def _check_rules(self) -> None:
        if self.bolt is None or "watermark_partition" not in self.bolt.single:
            if self.partitions is not None:
                raise ScenarioError(
                    "partitions without bolt.watermark_partition",
                    why="they are the values of that column that exist",
                    do="name the column: bolt: {watermark_partition: p}",
                )
        elif isinstance(self.partitions, dict):
            strange = [name for name in self.partitions if name not in self.streams]
            if strange:
                found = ", ".join(map(repr, strange))
                raise ScenarioError(f"partitions: expected streams among {', '.join(self.streams)}, found {found}")
        if self.bolt is None:
            return
        try:
            _ = self.rules
        except ConfigError as error:
            raise ScenarioError(f"bolt: {error}") from None
        imports = imports_of(self.bolt) or {}
        unknown = [name for pair in imports.items() for name in pair if name not in self.streams]
        if unknown:
            raise ScenarioError(
                f"bolt.imports: expected streams among {', '.join(self.streams)}, found {', '.join(map(repr, unknown))}"
            )

    def _filled(self) -> Iterator[ScenarioStep]:
        only = self.streams[0] if len(self.streams) == 1 else None
        number = 0
        for step in self.steps:
            if not isinstance(step, EventStep):
                yield step
                continue
            number += 1
            yield step.filled(number, only, with_id=self.topology is None)

    def _stream_problems(self) -> Iterator[tuple[int, str]]:
        if not self.streams:
            return
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep) or step.stream in self.streams:
                continue
            found = "nothing" if step.stream is None else repr(step.stream)
            yield at, f".stream: expected one of {', '.join(self.streams)}, found {found}"

    def _clock_problems(self) -> Iterator[tuple[int, str]]:
        clock: int | None = None
        for at, step in enumerate(self.steps):
            moved = step.moved if isinstance(step, EventStep | ClockStep) else None
            arrives = isinstance(step, EventStep) and step.arrival is not None
            if isinstance(step, EventStep) and arrives and step.clock is not None:
                yield at, ": expected clock (the clock moves first) or arrival (the event is in its batch), found both"
            if moved is not None and clock is not None and moved < clock:
                key = "arrival" if arrives else "clock"
                yield at, f".{key}: the clock goes back, from {clock / 1000:.15g} to {moved / 1000:.15g}"
            clock = clock if moved is None else max(moved, clock if clock is not None else moved)
            if clock is None and isinstance(step, EventStep) and self.topology is None and not self.is_event_time:
                yield (
                    at,
                    ".clock: expected a time, found none yet; a bolt without timestamp_field reads the clock",
                )

    def _event_problems(self) -> Iterator[tuple[int, str]]:
        if self.topology is not None:
            return
        seen: dict[str, int] = {}
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep):
                continue
            if step.event.get("id") != step.id:
                yield at, f".event.id: expected a text, found {step.event.get('id')!r}"
            elif step.id in seen and self.rules.message_id_field != "id":  # where they may come again
                yield at, f".event.id: {step.id!r} is the id of steps[{seen[step.id]}] already"
            seen.setdefault(step.id, at)
            yield from self._cell_problems(at, step)

    def _cell_problems(self, at: int, step: EventStep) -> Iterator[tuple[int, str]]:
        if self.step is not None:
            yield from ((at, f".event{text}") for text in problems(step.event))
            return
        for name, kind in columns_of(self.rules).items():
            try:
                cell(kind, step.event.get(name))
            except WindboltError as error:
                yield at, f".event.{name}: {error}"
        if self.names_policies:
            try:
                columns_in([step.event])
            except ScenarioError as error:
                yield at, f".event.{error}"

    def _ends(self) -> Iterator[tuple[int, str]]:
        closings = (at for at, step in enumerate(self.steps) if isinstance(step, CloseStep))
        closed = next(closings, len(self.steps))
        for at, step in enumerate(self.steps[closed + 1 :], closed + 1):
            if not isinstance(step, ExpectStep):
                yield at, f": nothing can follow the close of steps[{closed}]"
                return


def _happens(steps: list[ScenarioStep]) -> list[ScenarioStep]:
    """Steps without what is expected between them."""
    return [step for step in steps if not isinstance(step, ExpectStep)]
