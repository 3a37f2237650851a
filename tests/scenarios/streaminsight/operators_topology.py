"""Operators, and behind each a union with ticks: those that it lets out show the watermark of the operator."""

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from windbolt import (
    BatchBolt,
    ShiftTime,
    TemporalJoin,
    TopologyBuilder,
    TupleWindow,
    Union,
    WindowedBolt,
    sinks,
    spouts,
)
from windbolt.presets import streaminsight

GIVEN = streaminsight(None, field="cti")
"""The sources put their watermarks in."""


class Total(WindowedBolt):
    """A row a window, which begins when its window does."""

    outputs: ClassVar[str] = "n long"

    def execute(self, window: TupleWindow) -> tuple[int]:
        return (len(window),)


class Ids(BatchBolt):
    """A filter: what has an id."""

    outputs: ClassVar[str] = "id string"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch.filter(pc.is_valid(batch.column("id"))).select(["id"])


def released(name: str) -> TopologyBuilder:
    """The spouts, and the ticks that come out behind the operator of this name."""
    builder = TopologyBuilder("operators")
    for spout in ("left", "right"):
        builder.set_spout(spout, spouts.memory("ts timestamp, end timestamp, cti timestamp, k string"))
    builder.set_spout("ticks", spouts.memory("ts timestamp, cti timestamp, id string"))
    builder.set_bolt("clock", Union().with_time(GIVEN).with_timestamp_field("ts")).global_grouping("ticks")
    both = Union().with_time(streaminsight(1))
    builder.set_bolt("both", both).global_grouping(name).global_grouping("only")
    builder.set_bolt("only", Ids()).shuffle_grouping("clock")
    builder.set_bolt("shown", Ids()).shuffle_grouping("both")
    builder.set_sink("released", sinks.memory()).from_("shown")
    return builder


def join() -> TopologyBuilder:
    """A join of left and right."""
    builder = released("join")
    bolt = TemporalJoin("left", "right", on="k").with_time(GIVEN).with_timestamp_field("ts").with_lifetime("end")
    builder.set_bolt("join", bolt).global_grouping("left").global_grouping("right")
    return builder


def union() -> TopologyBuilder:
    """A union of left and right."""
    builder = released("union")
    bolt = Union().with_time(GIVEN).with_timestamp_field("ts")
    builder.set_bolt("union", bolt).global_grouping("left").global_grouping("right")
    return builder


def plain(bolt: BatchBolt) -> TopologyBuilder:
    """A plain bolt behind a bolt that has the watermark of left."""
    builder = released("plain")
    builder.set_bolt("source", Union().with_time(GIVEN).with_timestamp_field("ts")).global_grouping("left")
    builder.set_bolt("plain", bolt).shuffle_grouping("source")
    return builder


class Before(BatchBolt):
    """A filter of the events of a key."""

    outputs: ClassVar[str] = "k string"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch.filter(pc.equal(batch.column("k"), "a")).select(["k"])


def filtered() -> TopologyBuilder:
    """A filter."""
    return plain(Before())


def shifted() -> TopologyBuilder:
    """Five seconds later."""
    return plain(ShiftTime("5s"))


def shifted_back() -> TopologyBuilder:
    """Five seconds earlier."""
    return plain(ShiftTime("-5s"))


def tumbling() -> TopologyBuilder:
    """Windows of ten seconds."""
    return hopping("10s")


def hopping(slide: str = "5s") -> TopologyBuilder:
    """Windows of ten seconds, a new one every five."""
    builder = released("windows")
    bolt = Total().with_time(GIVEN).with_timestamp_field("ts").with_window("10s", slide)
    builder.set_bolt("windows", bolt.with_time(output_time="window start")).global_grouping("left")
    return builder
