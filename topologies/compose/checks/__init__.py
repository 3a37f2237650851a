"""What the settings of a windowed bolt ask of its streams and of each other; all mistakes of a bolt are found at once.

A file for each subject. Each of ``CHECKS`` is given the bolt and returns the mistakes that it finds.
``topology_limits.py`` and ``called_methods.py`` are called from elsewhere, since they need something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topologies.compose.checks.checked_bolt import CheckedBolt
from topologies.compose.checks.empty_window_rules import empty_windows
from topologies.compose.checks.firing_rules import expired, key_trigger, panes, parallel_windows, policies
from topologies.compose.checks.in_one_task import fields, joins, key, sums
from topologies.compose.checks.lateness import keys_watermark, late_stream, lateness
from topologies.compose.checks.named_columns import columns, imports, message_ids, partitions, retractions
from topologies.compose.checks.window_kinds import windows
from topologies.compose.effects import idle_settings
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from windowing.settings import WindowSettings

CHECKS = (
    columns, retractions, imports, partitions, key, fields, sums, joins, keys_watermark, lateness, late_stream, windows,
    panes, empty_windows, expired, message_ids, parallel_windows, policies, key_trigger,
)  # fmt: skip
"""In the order in which their mistakes are reported."""


def mistakes_of(bolt: CheckedBolt) -> Iterator[ConfigError]:
    """What is wrong with the settings of a bolt; first what was asked for and changes nothing (ST-18, AT-22)."""
    yield from idle_settings(bolt.name, bolt.situation)
    for check in CHECKS:
        yield from check(bolt)


def late_by_window_fits(settings: WindowSettings) -> bool:
    """Whether events of a bolt with event times can be late by their windows (C-23)."""
    if settings.eviction is not None or settings.trigger is not None:
        return False
    bolt = CheckedBolt(name="", settings=settings, event_time=True)
    return not any((*lateness(bolt), *windows(bolt)))
