"""The model of a step's file (UH-1); names are the file's, in Python's spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Discriminator, Field, PrivateAttr, Tag, field_validator

from topologies.io.documents.showing import brief
from topologies.step.config.connecting import Connection, Destination, SourceSection
from topologies.step.config.formats import Formats
from topologies.step.config.key_section import KeySection
from topologies.step.config.step_values import Details, Flag, Place, Section, Text, TimeSetting, Whole, at_most
from topologies.step.config.trigger_section import TriggerSection
from windowing.time.durations import millis

Tasks = Annotated[Whole, at_most(1_000, "each task has state and work of its own in every batch")]


Location = tuple[str | int, ...]
"""A place in the file, such as ``("destination", "branches", 0)``; empty for the first step."""

T = TypeVar("T")


class Placed(NamedTuple, Generic[T]):
    """A part of the file, and its place."""

    place: Location
    part: T


def _kind(value: object) -> str:
    """The kind of a section for where messages go: a topic, unless its type is that of a step."""
    kind = value.get("type", "destination") if isinstance(value, Mapping) else getattr(value, "type", "destination")
    return kind if isinstance(kind, str) else brief(kind)


Next: TypeAlias = Annotated[
    Annotated[Destination, Tag("destination")] | Annotated["Step", Tag("aggregation")], Discriminator(_kind)
]
"""Where messages go: a topic, or a further step of the same run (UH-32)."""


class Step(Section):
    """A step: what it does with messages, and where they go. A further step is one such section."""

    name: Text = Field(description='what the step is called: name: "orders"')
    type: Literal["aggregation"] = Field(description='what the step does: type: "aggregation"')
    environment_variables: Place | None = None
    """A JSON file, which the rules see as loadedVariables (UH-29)."""
    format: Formats = Field(
        description='the formats of messages that come in and go out: format: {input: "json", output: "json"}'
    )
    key: KeySection = Field(
        description="how the key is computed by which events are gathered, such as key: {type: key}, "
        "{type: headers, keys: [shop]}, {type: hash} or {type: dsl, path: ...}"
    )
    trigger: TriggerSection = Field(
        description="when the gathered events of a key are aggregated, such as trigger: {type: count, count: 2, "
        "timeout: 100}, or one of type dsl, time or timeFromEvent"
    )
    dsl: Place = Field(description='where the rules are that aggregate the events: dsl: {source: "file", path: ...}')
    state_full: Flag = False
    """Whether the rules' cache survives a restart (UH-30)."""
    destination: Next = Field(
        description='where the results go: destination: {name: "output", topic: "output", '
        'config: {type: "kafka", name: "output"}}, or a further step, of type "aggregation"'
    )
    error: Next | None = None
    """Where failed events go (UH-31); without it they stop the run."""
    error_details: Details = "full"
    """How much of an exception the reason of a failed event reports: its text may contain parts of messages."""
    branches: list[Next] = Field(default_factory=list)
    """Destinations and steps that the rules choose by name (BranchName, UH-32)."""
    parallelism: Tasks = 2
    """Number of tasks that share the keys."""
    rule_time_limit: TimeSetting = millis(5_000)
    """Maximum duration of a call of the rules."""

    @property
    def ways(self) -> Iterator[tuple[Location, Destination | Step]]:
        """Where its messages go, each with its place in the step: the main way, the branches, and that of errors."""
        yield ("destination",), self.destination
        for index, branch in enumerate(self.branches):
            yield ("branches", index), branch
        if self.error is not None:
            yield ("error",), self.error

    @field_validator("branches")
    @classmethod
    def _distinct(cls, value: list[Next]) -> list[Next]:
        names = [branch.name for branch in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected names that differ, found {', '.join(map(repr, twice))} more than once")
        return value


class StepConfig(Step):
    """The whole file: the first step, with those that follow it, and where and how they run."""

    source: SourceSection | None = None
    connections: dict[str, Connection] = Field(default_factory=dict, repr=False)  # secret
    allow_loops: Flag = False
    """Whether messages may be sent to topics that the step itself reads."""
    allow_file_rules: Flag = True
    """Whether rules may be read from files; otherwise they come only from the path of Python's modules."""

    _file: Path = PrivateAttr(default_factory=Path)

    @property
    def file(self) -> Path:
        """The file that was loaded."""
        return self._file

    @property
    def steps(self) -> list[Placed[Step]]:
        """All steps: the first one, and after each step those that follow it: the main one, the branches, that of
        errors."""
        return list(_steps((), self))

    @property
    def destinations(self) -> list[Placed[Destination]]:
        """The topics to which messages finally go, step by step."""
        return [
            Placed((*location, *way), to)
            for location, step in self.steps
            for way, to in step.ways
            if isinstance(to, Destination)
        ]

    @property
    def last(self) -> tuple[Step, Destination]:
        """The last step on the chain of main destinations, and its topic."""
        step: Step = self
        while isinstance(step.destination, Step):
            step = step.destination
        return step, step.destination

    def without_file_rules(self) -> StepConfig:
        """The step with rules from files forbidden."""
        return self.model_copy(update={"allow_file_rules": False})


def _steps(location: Location, step: Step) -> Iterator[Placed[Step]]:
    yield Placed(location, step)
    for way, to in step.ways:
        if isinstance(to, Step):
            yield from _steps((*location, *way), to)
