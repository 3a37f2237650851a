"""The note of a worker about its window is what the driver says of a worker that was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.engine.failures import SIZE, WorkerPosition
from topologies.testing.bolt_run import make_window


@pytest.mark.parametrize(
    ("events", "windows", "words"),
    [
        (1, 1, " on the window at 1970-01-01T00:00:00Z of 1 event"),
        (3, 1, " on the window at 1970-01-01T00:00:00Z of 3 events"),
        (3, 2, " on 2 windows of 3 events, the first at 1970-01-01T00:00:00Z"),
    ],
)
def test_a_window_or_several_are_said_with_their_events(events: int, windows: int, words: str, tmp_path: Path) -> None:
    with (tmp_path / "shared").open("w+b") as file:
        file.truncate(SIZE)
        position = WorkerPosition(file.fileno())
        position.enter(make_window([(0,)] * events, "number long"), windows)
        assert position.words() == words
        position.leave()
        assert position.words() == ""
        position.close()
