"""The name of a checkpoint: a folder given by the user."""

from __future__ import annotations

from windowing.errors import ConfigError


def check_named(checkpoint: str) -> None:
    """Raise ConfigError for a blank name, which would stand for the current folder."""
    if not checkpoint.strip():
        raise ConfigError(
            f"the checkpoint {checkpoint!r} names no folder",
            why="a checkpoint has a folder of its own; a variable that is not set leaves nothing of its name",
            do="name a folder, such as ck/",
        )
