"""The engines that run topologies and scenarios; what each needs, and what only one of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from topologies.run.options import RunOptions
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


def refuse_on_spark(options: RunOptions) -> None:
    """Raise ConfigError for a run on Spark without a checkpoint."""
    if options.checkpoint is None:
        raise ConfigError(
            "a run on Spark without a checkpoint",
            why="the checkpoint holds the state, so that a restart continues where the last run stopped",
            do="give a folder: checkpoint='ck/', or --checkpoint ck/; or run it in this process: engine='local',"
            " or --engine local",
        )


def refuse_in_process(options: RunOptions) -> None:
    """Raise ConfigError for a run in this process that runs until it is stopped, without a checkpoint."""
    if options.checkpoint is None and options.every is not None:
        raise ConfigError(
            "a local run with a trigger interval and no checkpoint",
            why="when the run is stopped, open windows would be lost, and the input would be read again",
            do="give it a folder: checkpoint='ck/', or --checkpoint ck/",
        )


def check_engine(engine: Engine, options: RunOptions, for_spark: Mapping[str, Any], local: str) -> None:
    """Raise ConfigError for what an engine cannot do without, and for what it does nothing with.

    ``for_spark``: arguments that only Spark takes, by the name that the caller wrote; None for those not given.
    ``local``: how the caller wrote the engine of this process.
    """
    if engine is Engine.SPARK:
        refuse_on_spark(options)
    else:
        refuse_for_spark(for_spark, local)
        refuse_in_process(options)
