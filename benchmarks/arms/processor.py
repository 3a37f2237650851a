"""W4 as a stateful processor of Spark, in Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Medians(StatefulProcessor):
    """Keeps the values of each second in a map, and sets a timer for the end of each window."""

    def __init__(self, length: int) -> None:
        self.length = length

    def init(self, handle: Any) -> None:
        """Called before the first row."""
        self.handle = handle
        self.seconds: Any = handle.getMapState("seconds", "second long", "values array<double>")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Called with the new rows of a batch: each goes to the values of its second."""
        frames = list(rows)
        times = np.concatenate([frame["event_time"].to_numpy().astype("datetime64[s]").astype(int) for frame in frames])
        values = np.concatenate([frame["value"].to_numpy() for frame in frames])
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        starts = np.flatnonzero(np.diff(times, prepend=-1))
        ends: set[int] = set()
        for second, new in zip(times[starts].tolist(), np.split(values, starts[1:]), strict=True):
            held = self._held(second)
            if held is None:
                ends.update(range(second + 1, second + self.length + 1))
            whole = new if held is None else np.concatenate([held, new])
            self.seconds.updateValue((second,), (whole.tolist(),))
        for end in sorted(ends):
            self.handle.registerTimer(end * 1000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Called when the watermark has passed the end of a window."""
        end = expiredTimerInfo.getExpiryTimeInMs() // 1000
        found = [self._held(second) for second in range(end - self.length, end)]
        values = np.concatenate([held for held in found if held is not None])
        if found[0] is not None:
            self.seconds.removeKey((end - self.length,))  # no later window holds it
        until = pd.to_datetime([end], unit="s", utc=True).tz_localize(None)
        yield pd.DataFrame({"until": until, "events": [len(values)], "median": [float(np.median(values))]})

    def close(self) -> None:
        """Called at the end; there is nothing to give back."""

    def _held(self, second: int) -> np.ndarray | None:
        """The values of a second so far."""
        return np.asarray(self.seconds.getValue((second,))[0]) if self.seconds.containsKey((second,)) else None
