"""What a checkpoint is called: the folder that somebody names."""

from __future__ import annotations

from windowing.errors import ConfigError


def check_named(checkpoint: str) -> None:
    """Raise ConfigError for the name of no folder: it would be taken for the one in which the process runs."""
    if not checkpoint.strip():
        raise ConfigError(
            f"the checkpoint {checkpoint!r} names no folder",
            why="a checkpoint has a folder of its own; a variable that is not set leaves nothing of its name",
            do="name a folder, such as ck/",
        )
