"""A column that a bolt misspells is told with the one that is meant, however the bolt reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windbolt import BatchBolt, Bolt, BoltError, TopologyBuilder, WindowedBolt, run_local, sinks, spouts

ROWS = [("ada", 2.5)]


def failure(bolt: Any) -> str:
    builder = TopologyBuilder("misspelled")
    builder.set_spout("orders", spouts.memory("user string, amount double", ROWS))
    builder.set_bolt("bolt", bolt).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    with pytest.raises(BoltError) as caught:
        run_local(builder.build())
    return caught.value.why


@pytest.mark.parametrize(
    "read",
    [
        lambda window: list(window.groups("usr", "amount")),
        lambda window: window.column("usr"),
        lambda window: window.table["usr"],
        lambda window: window.table.column("usr"),
        lambda window: window.to_pandas()["usr"],
        lambda window: window.get()[0]["usr"],
    ],
)
def test_in_a_window(read: Callable[[Any], Any]) -> None:
    class Reads(WindowedBolt):
        outputs = "n long"

        def execute(self, window):
            read(window)

    assert "did you mean 'user'?" in failure(Reads().with_tumbling_window(1))


def test_in_an_event_and_in_a_batch() -> None:
    class Event(Bolt):
        outputs = "n long"

        def execute(self, tuple):
            return tuple["usr"]

    class Batch(BatchBolt):
        outputs = "n long"

        def execute(self, batch):
            return batch["usr"]

    assert "KeyError: 'usr'; did you mean 'user'? (there are user, amount)" in failure(Event())
    assert "did you mean 'user'? (there are user, amount)" in failure(Batch())


@pytest.mark.parametrize("key", ["nothing like it", 5, "amount"])
def test_a_key_that_means_no_column_is_told_as_it_is(key: object) -> None:
    class Own(WindowedBolt):
        outputs = "n long"

        def execute(self, window):
            return dict[Any, Any]()[key]

    assert failure(Own().with_tumbling_window(1)).startswith(f"KeyError: {key!r} at ")
