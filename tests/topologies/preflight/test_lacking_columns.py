"""An input whose rows have none of the columns that a bolt adds up is told by ``windbolt check``."""

from __future__ import annotations

from topologies.checkpoints.preflight import missing_column_warnings
from topologies.graph.describing import topology_text
from topologies.topology import Topology
from windbolt import AggregateBolt, TemporalJoin, TopologyBuilder, spouts
from windbolt.aggregates import Aggregate, count, sum

PURCHASES = "id string, player string, amount double, ts timestamp, until timestamp"
REFUNDS = "purchase string, amount double, ts timestamp"


def game(**aggregates: Aggregate) -> Topology:
    """Purchases and what of them was refunded, by player; both streams of the join have an amount."""
    builder = TopologyBuilder("game")
    builder.set_spout("purchases", spouts.memory(PURCHASES))
    builder.set_spout("refunds", spouts.memory(REFUNDS))
    join = TemporalJoin("purchases", "refunds", on={"purchases": "id", "refunds": "purchase"})
    join = join.with_timestamp_field("ts").with_lifetime("until")
    builder.set_bolt("refunded", join).fields_grouping("purchases").fields_grouping("refunds")
    revenue = AggregateBolt("player", **aggregates).with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("revenue", revenue).fields_grouping("purchases", "player").fields_grouping("refunded", "player")
    return builder.build()


def test_an_input_without_what_is_added_up_is_warned_of() -> None:
    (warning,) = missing_column_warnings(game(revenue=sum("amount")))["revenue"].warnings
    assert "adds up 'amount', and 'refunded' has none of these columns" in str(warning)
    assert "refunds_amount" in str(warning), "the columns that are there"
    assert "outputs= and rename=" in str(warning)


def test_inputs_with_a_column_each_and_counts_are_meant() -> None:
    assert missing_column_warnings(game(revenue=sum("amount"), back=sum("refunds_amount"))) == {}
    assert missing_column_warnings(game(events=count())) == {}


def test_the_time_of_an_input_without_the_column_is_said() -> None:
    assert "event time from ts (of refunded: that of its rows)" in topology_text(game(n=count()))
