"""The functions that rules are expected to be, and the errors for those that are something else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from topologies.step.rules.rule import Kind
from windowing.errors import ConfigError


class _Form(NamedTuple):
    """The expected function of a rule: its default name and its parameters."""

    name: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return self.named(self.name)

    def named(self, name: str) -> str:
        """The first line of such a function with this name."""
        return f"def {name}({', '.join(self.parameters)})"


FORMS: dict[str, _Form] = {
    "key": _Form("key", ("event",)),
    "trigger": _Form("trigger", ("event", "call")),
    "time": _Form("time", ("event",)),
    "dsl": _Form("aggregate", ("events", "call")),
}


def unclear_error(kind: Kind, place: str, name: str, own: Sequence[str]) -> ConfigError:
    """The error for a file without the named function, or without one that could be meant."""
    return ConfigError(
        f"{place} has no function {name!r}",
        why=f"its functions are {', '.join(own)}" if own else "it has no public functions",
        do=f"write {FORMS[kind]}, or name another one: {os.path.basename(place)}:name",
    )


def unfit_error(kind: Kind, place: str, name: str, line: int | None, why: str) -> ConfigError:
    """The error for a function that cannot be a rule of this kind."""
    where = f"{place}, line {line}" if line else place
    return ConfigError(f"{where}: {name!r} cannot be the {kind} rule", why=why, do=f"write {FORMS[kind].named(name)}")
