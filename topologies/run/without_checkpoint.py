"""Runs that cannot do without a checkpoint."""

from __future__ import annotations

from topologies.run.options import RunOptions
from windowing.errors import ConfigError


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
    """Raise ConfigError for a run in this process that goes on until it is stopped, without a checkpoint."""
    if options.checkpoint is None and options.every is not None:
        raise ConfigError(
            "a local run with a trigger interval and no checkpoint",
            why="when the run is stopped, open windows would be lost, and the input would be read again",
            do="give it a folder: checkpoint='ck/', or --checkpoint ck/",
        )
