"""An aggregation step as its file describes it (UH-1): names are the file's, in Python's spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from topologies.step.config.connecting import Connection, Destination, SourceSection
from topologies.step.config.formats import Formats
from topologies.step.config.keys import KeySection
from topologies.step.config.triggers import TriggerSection
from topologies.step.config.values import Flag, Place, Section, Text, Time, Whole
from windowing.durations import millis


class StepConfig(Section):
    """The whole file; what is above ``source`` is the step, and the rest says where and how it runs."""

    name: Text = Field(description='what the step is called: name: "orders"')
    type: Literal["aggregation"] = Field(description='what the step does: type: "aggregation"')
    environment_variables: Place | None = None
    """A JSON file; the rules find it as loadedVariables (UH-29)."""
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
    """Whether the rules' cache outlives a restart (UH-30)."""
    destination: Destination = Field(
        description='where the results go: destination: {name: "output", topic: "output", '
        'config: {type: "kafka", name: "output"}}'
    )
    error: Destination | None = None
    """Where events go that fail (UH-31); without it they stop the run."""
    branches: list[Destination] = Field(default_factory=list)
    """Destinations that the rules choose by name (BranchName, UH-32)."""
    source: SourceSection | None = None
    connections: dict[str, Connection] = Field(default_factory=dict)
    parallelism: Whole = 2
    """How many tasks share the keys."""
    rule_time_limit: Time = millis(5_000)
    """How long a call of the rules may take."""
    allow_file_rules: Flag = True
    """Whether rules may be read from files; without it they come from the path of Python's modules alone."""

    _file: Path = PrivateAttr(default_factory=Path)

    @property
    def file(self) -> Path:
        """The file that was loaded."""
        return self._file

    @property
    def destinations(self) -> list[Destination]:
        """All of them: the main one, the branches, and that of errors."""
        return [self.destination, *self.branches, *([self.error] if self.error else [])]

    def without_file_rules(self) -> StepConfig:
        """The step as one whose rules may not be read from files."""
        return self.model_copy(update={"allow_file_rules": False})

    @field_validator("branches")
    @classmethod
    def _distinct(cls, value: list[Destination]) -> list[Destination]:
        names = [branch.name for branch in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected names that differ, found {', '.join(map(repr, twice))} more than once")
        return value
