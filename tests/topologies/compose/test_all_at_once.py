"""A ready bolt whose columns are wrong in several places is told of all of them at once."""

from __future__ import annotations

import pytest

from windbolt import AggregateBolt, TopologyBuilder, TopologyError, spouts
from windbolt import aggregates as agg


def test_the_key_the_aggregates_and_the_time_of_a_bolt_are_told_together() -> None:
    builder = TopologyBuilder("sensors")
    builder.set_spout("a", spouts.memory("sensor string, celsius double, ts timestamp"))
    bolt = AggregateBolt(by="sensr", mean=agg.mean("celcius"), most=agg.max("celsus"), n=agg.count())
    bolt = bolt.with_tumbling_window("1m").with_timestamp_field("at")
    builder.set_bolt("minutes", bolt).fields_grouping("a", "sensor")
    with pytest.raises(TopologyError) as found:
        builder.build()
    text = str(found.value)
    for wrong in ("'sensr'", "'celcius'", "'celsus'", "no timestamp field 'at'"):
        assert wrong in text
    assert text.count("did you mean 'celsius'") == 2
