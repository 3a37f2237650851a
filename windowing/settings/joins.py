"""Which events of a join have a row: pairs, and events without a partner."""

from __future__ import annotations

from typing import Literal, get_args

from windowing.errors import ConfigError

How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""``inner``: pairs; ``left``, ``right``, ``full``: and left events, right ones, either, without a partner; ``semi``,
``anti``: left events that have a partner, or have none."""


def check_how(how: object) -> None:
    """Raise ConfigError for anything that is not a ``How``."""
    if how not in get_args(How):
        raise ConfigError(
            f"a join with how={how!r:.60}",
            why=f"that is none of {', '.join(get_args(How))}",
            do="use how='inner' for pairs only, 'left' to keep left events without a partner",
        )
