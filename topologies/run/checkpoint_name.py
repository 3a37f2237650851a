"""The name of a checkpoint: a folder given by the user."""

from __future__ import annotations

from windowing.errors import ConfigError


def check_named(checkpoint: str) -> None:
    """Raise ConfigError for a blank name, which would stand for the current folder."""
    if not checkpoint.strip():
        raise ConfigError(
            f"the checkpoint {checkpoint!r} is not a folder's name",
            why="a checkpoint needs a folder; perhaps a shell variable in the name is not set",
            do="name a folder, such as ck/",
        )
