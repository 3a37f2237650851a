"""The settings of a windowed bolt, and the policies that they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windowing.bounds import Bounds
from windowing.durations import Count, Duration


@dataclass(frozen=True)
class WindowSettings:
    """Everything that ``WindowedBolt.with_...`` can set; policies are made from it, once, when a topology is built."""

    length: Duration | Count | None = None
    slide: Duration | Count = Count(1)
    bounds: Bounds = Bounds.END
    offset: Duration = Duration(0)
    timestamp_field: str | None = None
    timestamp_extractor: Callable[..., Any] | None = None
    extractor_on_columns: bool = False
    processing_time: bool = False
    """Asked for by name; without it, and without a field or extractor, the input streams decide."""
    lag: Duration | None = None
    watermark_interval: Duration = Duration(0)
    late_stream: str | None = None
    eviction: Any = None
    trigger: Any = None

    @property
    def reads_timestamps(self) -> bool:
        """Whether event times come from a field or an extractor of this bolt's own."""
        return self.timestamp_field is not None or self.timestamp_extractor is not None
