"""Which events of sliding logs are late by window: by hand, at the very bounds."""

from __future__ import annotations

import numpy as np
import pytest

from manager.keyed.open_sessions import late_for_sliding_logs

LENGTH = 5
CLOSED = 10


@pytest.mark.parametrize(
    ("admitted", "time", "late"),
    [
        ([], 11, False),
        ([], 10, True),  # its own window, (5, 10], has closed
        ([8], 9, False),  # the window in which 8 is no more, (8, 13], is open and holds it
        ([8], 8, True),
        ([5], 9, True),  # the window (5, 10], in which 5 is no more, has closed
        ([6], 10, False),
        ([11], 9, False),  # the window of 11, (6, 11], is open and holds it
        ([12], 8, False),
        ([13], 8, True),  # the window (8, 13] begins behind it
        ([16], 9, True),
    ],
)
def test_an_event_is_late_where_no_open_window_holds_it(admitted: list[int], time: int, late: bool) -> None:
    """Those before it came while no window had closed."""
    times = np.array([*admitted, time])
    closed = np.array([0] * len(admitted) + [CLOSED])
    found = late_for_sliding_logs(times, None, np.ones(len(times), np.bool_), closed, LENGTH, lambda: None)
    assert found.tolist() == [False] * len(admitted) + [late]
