"""The time settings of other systems: ``with_time(presets.azure(late="5s"))``."""

from windowing.settings.presets import (
    Preset,
    atlas,
    azure,
    increasing_start_time,
    storm,
    streaminsight,
    strictly_increasing_start_time,
)

__all__ = [
    "Preset",
    "atlas",
    "azure",
    "increasing_start_time",
    "storm",
    "streaminsight",
    "strictly_increasing_start_time",
]
