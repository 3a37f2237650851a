"""A chain of windows `[start, end)` whose rows come into the next window is told by `windbolt check`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from topologies.checkpoints.preflight import shifted_chains
from topologies.topology import Topology
from windbolt import AggregateBolt, TopologyBuilder, WindowedBolt, aggregates, kinds, presets, spouts

Change = Callable[[WindowedBolt], WindowedBolt]


def chain(first: Change, second: Change) -> Topology:
    builder = TopologyBuilder("chain")
    builder.set_spout("orders", spouts.memory("user string, ts timestamp"))
    one, two = AggregateBolt("user", n=aggregates.count()), AggregateBolt(n=aggregates.sum("n"))
    builder.set_bolt("minutes", first(one).with_timestamp_field("ts")).fields_grouping("orders")
    builder.set_bolt("hours", second(two)).global_grouping("minutes")
    return builder.build()


def open_end(window: Change) -> Change:
    return lambda bolt: window(bolt).with_alignment(bounds="[start, end)")


def minutes(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_tumbling_window("1m")


def hours(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_window("1h", "30m")


def of_the_clock(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_window(kinds.Calendar("hour", "Europe/Berlin"))


@pytest.mark.parametrize("second", [open_end(hours), of_the_clock])
def test_it_is_told_with_what_keeps_them(second: Change) -> None:
    (told,) = shifted_chains(chain(open_end(minutes), second))
    assert told == (
        "the rows of minutes have the time of the end of their window, which is in the next window of hours: "
        "with_time(output_time='window last') on minutes keeps them in theirs"
    )
    kept = chain(lambda bolt: open_end(minutes)(bolt).with_time(output_time="window last"), second)
    assert [*shifted_chains(kept)] == []


def test_under_atlas_too() -> None:
    atlas = presets.atlas()
    assert [
        *shifted_chains(chain(lambda bolt: minutes(bolt.with_time(atlas)), lambda bolt: hours(bolt.with_time(atlas))))
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (minutes, open_end(hours)),
        (open_end(minutes), hours),
        (minutes, hours),
        (open_end(minutes), lambda bolt: bolt.with_window(kinds.Session("10m"))),
        (open_end(minutes), lambda bolt: bolt.with_window(10)),
    ],
    ids=["storm before", "storm behind", "storm", "sessions", "counts"],
)
def test_other_chains_are_as_they_should_be(first: Change, second: Change) -> None:
    assert [*shifted_chains(chain(first, second))] == []
