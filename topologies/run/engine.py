"""The engines that run topologies and scenarios, and what only one of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean

EngineName: TypeAlias = Literal["spark", "local"]
"""How callers name one."""


class Engine(StrEnum):
    """The engine that runs a topology or a scenario."""

    SPARK = "spark"
    LOCAL = "local"


def engine_of(name: str) -> Engine:
    """The engine of this name. Raises ConfigError where there is none."""
    try:
        return Engine(name)
    except ValueError:
        raise ConfigError(
            f"engine={name!r}{did_you_mean(name, [engine.value for engine in Engine])}",
            why="there is no such engine",
            do="use 'spark' or 'local'",
        ) from None


def refuse_for_spark(given: Mapping[str, Any], local: str) -> None:
    """Raise ConfigError where something is given that a run in this process does nothing with.

    ``given``: what was given for Spark, by the name that the caller wrote; None where it was not. ``local``: how the
    caller wrote the engine.
    """
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ConfigError(
            f"{', '.join(names)} with {local}", why="they are for Spark", do="leave them out, or run on Spark"
        )
