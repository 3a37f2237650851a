"""The settings of a scenario's bolt that are declared in ``WindowSettings``: a key of the file for each."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator

from topologies.scenarios.schema.scenario_values import (
    Anchor,
    DurationValue,
    Every,
    Inputs,
    LateActionValue,
    Listed,
    Moved,
    Positive,
    TextValue,
    TimeValue,
    one_of,
)
from windowing.settings import DECLARED
from windowing.settings.declaration import Declaration
from windowing.settings.listed_keys import ListedKeys
from windowing.settings.readers import (
    ABOVE_ZERO,
    ANCHOR,
    ARRIVAL,
    DURATION,
    EVERY,
    FLAG,
    IMPORTS,
    LISTED,
    NAME,
    PARTITION,
    SHIFT,
    STREAM,
    Reader,
)
from windowing.settings.rules import Arrival, LateAction


class ArrivalSetting(Listed):
    """How far an event may be from its arrival."""

    field: TextValue | None = None
    early: DurationValue | None = None
    late: DurationValue | None = None
    action: LateActionValue | None = None

    @property
    def rule(self) -> Arrival:
        """As bolts are given it."""
        return Arrival(self.field, self.early, self.late, LateAction.ADJUST if self.action is None else self.action)


class ListedKeysSetting(Listed):
    """Keys that are there from a moment on."""

    keys: list[Any]
    since: TimeValue

    @property
    def rule(self) -> ListedKeys:
        """As bolts are given it."""
        return ListedKeys(tuple(self.keys), self.since)


_TYPES: dict[Reader, Any] = {
    DURATION: DurationValue,
    SHIFT: Moved,
    ABOVE_ZERO: Positive,
    EVERY: Every,
    FLAG: bool,
    NAME: TextValue,
    STREAM: TextValue,
    PARTITION: TextValue,
    ANCHOR: Anchor,
    IMPORTS: Inputs,
    ARRIVAL: ArrivalSetting,
    LISTED: ListedKeysSetting,
}
"""How the values of a reader are written in a file."""


DECLARED_KEYS: Final = {declared.scenario: declared for declared in DECLARED.values() if declared.scenario is not None}
"""The settings that a file may give by themselves, by their keys."""


FORMER_KEYS: Final = {
    "past_the_end": "closes_after_end",
    "watermark_over": "watermark_combine",
    **{name: each.scenario for name, each in DECLARED.items() if each.scenario not in (None, name)},
}
"""Keys that files had before, and names that settings have in Python, with the key that they have now."""


def typed(declared: Declaration) -> Any:
    """The type of a key's value, as pydantic checks it."""
    if declared.reads.choices is not None:
        return _choice(declared.reads.choices)
    return _TYPES[declared.reads]


def as_given(value: Any) -> Any:
    """A value of a key as the method of a bolt takes it."""
    return value.rule if isinstance(value, ArrivalSetting) else value


def _choice(choices: type[Enum]) -> Any:
    return Annotated[
        choices, PlainValidator(lambda value: one_of(value, choices)), PlainSerializer(lambda one: one.value)
    ]
