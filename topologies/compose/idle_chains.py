"""Idle timeouts in a chain: a bolt that passes events on, and the one that reads it, have one or have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topologies.graph.nodes.windowed import WindowedNode
from windowing.bolts.ready.unions import Union
from windowing.errors import ConfigError


def idle_chains(bolts: Mapping[str, WindowedNode]) -> Iterator[ConfigError]:
    """The mistakes in idle timeouts of bolts that read a union or one that passes some of its events on (AT-22).

    Such a bolt releases an event once time is past it, so its last one only by its own timeout. The bolt behind it
    then has that event, and no watermark past it: its windows close by its own timeout alone.
    """
    for reader in bolts.values():
        if not reader.event_time or reader.bolt.settings.watermark_per_key or not all(reader.origins):
            continue
        for name in dict.fromkeys(origin.bolt for origins in reader.origins for origin in origins):
            passing = bolts[name]
            if isinstance(passing.bolt, Union):
                yield from _mistake(passing, reader)


def _mistake(passing: WindowedNode, reader: WindowedNode) -> Iterator[ConfigError]:
    before, behind = passing.bolt.settings, reader.bolt.settings
    first, second = repr(passing.name), repr(reader.name)
    if before.estimate_arrival or (before.idle_timeout is None) == (behind.idle_timeout is None):
        return
    if behind.idle_timeout is None:
        yield ConfigError(
            f"bolt {first} has an idle timeout, and {second} behind it has none",
            why=f"{first} passes its last events on when its source is silent, and then {second} would keep its "
            "windows open: a timeout closes the windows of its own bolt",
            do=f'give {second} one as well: with_watermark(idle_timeout="{before.idle_timeout}"), or take that of '
            f"{first} away",
        )
    else:
        yield ConfigError(
            f"bolt {second} has an idle timeout, and {first} before it has none",
            why=f"{first} holds events back until its watermark has passed them, so while its source is silent "
            f"{second} does not get the last ones",
            do=f'give {first} one as well: with_watermark(idle_timeout="{behind.idle_timeout}"), or take that of '
            f"{second} away",
        )
