"""Times that are rather seconds since 1970 that were taken for milliseconds: ``check`` and runs warn of them."""

from __future__ import annotations

from topologies.graph.nodes.windowed import WindowedNode
from windowing.errors import ConfigError
from windowing.time.timestamps import show

_MILLISECOND = 1_000
_SECONDS = range(100_000_000 * _MILLISECOND, 4_200_000_000 * _MILLISECOND)
"""Event times, in microseconds, of milliseconds that would be times from 1973 to 2103 as seconds."""


def epoch_seconds(whose: str, node: WindowedNode | None, latest: int, *, column: str = "") -> ConfigError | None:
    """A warning where the latest of several times lies where seconds lie that were taken for milliseconds.

    ``whose`` times they are, at the begin of the text; ``node``: the bolt whose field or extractor they are of, or None
    and their ``column``.
    """
    if latest not in _SECONDS:
        return None
    field = column if node is None else node.bolt.settings.timestamp_field
    of_extractor = node is not None and node.bolt.settings.timestamp_extractor is not None
    what = "the times of its timestamp extractor" if of_extractor else f"the times in {field!r}"
    return ConfigError(
        f"{whose}: {what} are before 1990, up to {show(latest)}",
        why="whole numbers are milliseconds since 1970, and these would be good times as seconds",
        do="return milliseconds, round(1000 * seconds), or a datetime"
        if of_extractor
        else "multiply seconds by 1000 in a bolt before, or write timestamps as ISO 8601",
    )
