"""What is known of a setting: declared once, where its field is, and read by everything that deals with settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import Any

from windowing.settings.readers import Reader

Words = Callable[[Any, Any], str | tuple[str, ...]]
"""A value that is not the default, and all settings (WindowSettings), in a sentence or several; empty where another
setting's words say it."""


@dataclass(frozen=True)
class SaidBy:
    """In place of words: where ``windbolt describe`` says the setting instead."""

    what: str
    """A setting whose words say it too, or a line of the description."""
    own_place: bool = False
    """Whether the JSON of a topology has a place for it beside the rules: ``"lag"``, ``"bounds"``."""


class Admits(Enum):
    """Who admits the events of a bolt that has another value of a setting than its default.

    What makes a bolt hold its events (a key, sessions, a trigger of keys) is left to
    ``policies.choose_policies``: tasks that hold events always admit them.
    """

    READER = "the reader"
    """The task that reads them, with the watermark of the last tick: the setting changes nothing there."""
    TASK = "the bolt's task"
    """In event time, the bolt's task, with the watermark before each event."""
    TASK_IN_ANY_TIME = "the bolt's task, in any time"
    """The bolt's task, in processing time as well."""
    FOLLOWING_EVENTS = "the bolt's task, with a watermark that follows events"
    """In event time, the bolt's task; and the watermark follows the events in their order of arrival, not the ticks."""


_KEY = "declaration"


@dataclass(frozen=True)
class Declaration:
    """One setting: how it is given, what it needs, and how it is shown."""

    name: str
    """Its field in WindowSettings."""
    default: Any
    reads: Reader
    method: str
    """The method of WindowedBolt that sets it."""
    argument: str
    """As which argument; empty if the method sets this alone."""
    given_as: str
    """The part of the argument that it is, where several settings share one argument: ``Panes(...)``; else empty."""
    preset: bool
    """Whether a preset decides it."""
    needs: tuple[str, ...]
    """Without which it changes nothing and is refused, the first missing one told: names in ``NEEDS``
    (``topologies/compose/effects.py``)."""
    scenario: str | None
    """Its name in scenario files; None where those have another way to say it, or none."""
    resumes: bool | str
    """Whether a run may continue with another value on the same checkpoint; or, as a text, when it may not."""
    admits: Admits
    """Who admits the events of a bolt that has another value than the default."""
    words: Words | SaidBy
    """How ``windbolt describe`` says it."""

    @property
    def has_own_place(self) -> bool:
        """Whether the JSON of a topology has a place for it beside the rules."""
        return isinstance(self.words, SaidBy) and self.words.own_place

    @property
    def call(self) -> str:
        """How a user sets it: ``with_watermark(every=...)``."""
        if self.given_as:
            return f"{self.method}({self.given_as})"
        return f"{self.method}({self.argument}=...)" if self.argument else self.method

    def read(self, value: Any) -> Any:
        """Convert what a user gives to the setting's value. Raises ConfigError for an invalid one.

        None takes a setting back to what it is without the call, where an argument has it for its default.
        """
        taken_back = value is None and self.default is None and self.argument
        return None if taken_back else self.reads.read(value)


def setting(
    default: Any,
    reads: Reader,
    call: str,
    *,
    admits: Admits,
    words: Words | SaidBy,
    given_as: str = "",
    preset: bool = False,
    needs: tuple[str, ...] = (),
    scenario: str | None = "",
    resumes: bool | str = True,
) -> Any:
    """A field of WindowSettings with its declaration; ``call`` is ``method`` or ``method.argument``.

    ``scenario`` is the name in scenario files, the field's own unless given; see ``Declaration`` for the others.
    """
    method, _, argument = call.partition(".")
    about = {
        "reads": reads, "method": method, "argument": argument, "given_as": given_as, "preset": preset, "needs": needs,
        "scenario": scenario, "resumes": resumes, "admits": admits, "words": words,
    }  # fmt: skip
    return field(default=default, metadata={_KEY: about})


def declarations(settings: type[Any]) -> Mapping[str, Declaration]:
    """The declaration of each declared setting by its name, in the order in which they stand.

    Raises ValueError if two settings are given by the same call: one would silently take the other's place.
    """
    found = {each.name: _declaration(each) for each in fields(settings) if _KEY in each.metadata}
    by_call: dict[str, str] = {}
    for name, declared in found.items():
        if declared.call in by_call:
            raise ValueError(f"the settings {by_call[declared.call]} and {name} are both given by {declared.call}")
        by_call[declared.call] = name
    return found


def by_argument(declared: Mapping[str, Declaration]) -> Mapping[tuple[str, str], Declaration]:
    """The setting that an argument of a method is; without the arguments that several settings share."""
    return {(each.method, each.argument): each for each in declared.values() if not each.given_as}


def _declaration(each: Field[Any]) -> Declaration:
    assert each.default is not MISSING
    about = dict(each.metadata[_KEY])
    if about["scenario"] == "":
        about["scenario"] = each.name
    return Declaration(each.name, each.default, **about)
