"""Arrays that code of users is given cannot be written to: they may be those of the events that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from manager.keyed.assigned_windows import AssignedWindows, Span
from manager.keyed.retained_events import RetainedEvents
from policies.assigners import LiveEvents, WindowAssigner, WindowMembers
from windowing.settings.panes import OpenWindows
from windowing.timestamps import FOREVER


class Meddling(WindowAssigner):
    """One window for all; it writes to all that it is given."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def _meddle(self, live: LiveEvents) -> None:
        for each in fields(live):
            values = getattr(live, each.name)
            if not isinstance(values, np.ndarray):
                continue
            try:
                values[0] = 7
            except ValueError:
                self.refused.append(each.name)

    @property
    def needs_sides(self) -> bool:
        return True

    def assign(self, live: LiveEvents, after: Any, upto: Any) -> Iterator[WindowMembers]:
        self._meddle(live)
        yield WindowMembers(live.starts[:1], live.starts[-1:] + 1, np.array([0, len(live)]), np.arange(len(live)))

    def finished(self, live: LiveEvents, upto: Any) -> NDArray[np.bool_]:
        self._meddle(live)
        return np.ones(len(live), np.bool_)

    def next_end(self, live: LiveEvents, after: Any) -> int | None:
        return None


@pytest.mark.parametrize("times", [[1, 2, 3], [3, 1, 2]])
def test_assigners_cannot_write_to_the_events(times: list[int]) -> None:
    columns = [np.array(times, np.int64) for _ in range(4)]
    held = RetainedEvents(
        times=columns[0],
        payload=pa.table({"id": times}),
        streams=np.zeros(3, np.int8),
        keys=np.zeros(3, np.int64),
        ends=columns[1],
        closed_until=columns[2],
        gaps=columns[3],
        accounted=np.zeros(3, np.bool_),
    )
    meddling = Meddling()
    (window,) = AssignedWindows([meddling], held).windows(Span(-1, FOREVER))
    assert window.table["id"].to_pylist() == [1, 2, 3]
    columns_of_live = ["starts", "keys", "ends", "closed_until", "gaps", "sides", "accounted"]
    columns_of_live += ["arrivals"] * (times != sorted(times))  # None where they are in order
    assert meddling.refused == columns_of_live * (len(meddling.refused) // len(columns_of_live))
    assert meddling.refused
    assert [column.tolist() for column in columns] == [times] * 4


def test_triggers_of_panes_cannot_write_to_what_is_known_of_windows() -> None:
    arrays = [np.arange(3) for _ in range(4)]
    windows = OpenWindows(*arrays)
    for each in fields(windows):
        with pytest.raises(ValueError, match="read-only"):
            getattr(windows, each.name)[0] = 7
    assert all(array.flags.writeable for array in arrays)
