"""A bolt that takes rows back in front of others: ready bolts would count what is taken back, and are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.places import ROOT
from topologies.io.sinks import MemorySink
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import (
    AggregateBolt,
    BatchBolt,
    Changes,
    Deduplicate,
    Rank,
    RateLimit,
    Silence,
    TemporalJoin,
    TopN,
    TopologyError,
    TupleWindow,
    Union,
    WindowedBolt,
    WindowJoin,
    aggregates,
)
from windowing.settings.panes import Panes

ROWS = [[("ada", 1_000, 2.0)], [("ada", 9_000, 5.0)], [("ada", 25_000, 1.0)], [("ada", 3_000, 1.0)]]


class Spent(WindowedBolt):
    outputs = "user string, spent double, ts long"

    def execute(self, window: TupleWindow) -> Any:
        return (window.get()[0]["user"], float(window.column("amount").sum()), window.get()[0]["ts"])


class Kept(BatchBolt):
    """The rows that were not taken back, of those at hand."""

    outputs = "user string, spent double, ts long"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch.filter(pa.compute.invert(batch["_retract"])).drop_columns(["_retract"])


def behind(bolt: Any, *, plain: bool = False) -> tuple[TopologyBuilder, MemorySink]:
    """The bolt behind one that takes rows back; ``plain``: with a bolt between that knows what to do with these."""
    builder, sink = TopologyBuilder("t"), sinks.memory()
    builder.set_spout("orders", spouts.memory("user string, ts long, amount double", *ROWS))
    spent = Spent().with_tumbling_window("20s").with_timestamp_field("ts").with_lateness(by="window", allowed="1h")
    retracting = spent.with_trigger(Panes(late=True, mode="retracting"))
    builder.set_bolt("spent", retracting).global_grouping("orders")
    before = "spent"
    if plain:
        builder.set_bolt("kept", Kept()).shuffle_grouping("spent")
        before = "kept"
    declarer = builder.set_bolt("behind", bolt).global_grouping(before)
    if isinstance(bolt, WindowJoin | TemporalJoin):
        declarer.global_grouping("orders")
    builder.set_sink("out", sink).from_("behind")
    return builder, sink


def tumbling(bolt: Any) -> Any:
    return bolt.with_tumbling_window("1h").with_timestamp_field("ts")


def total(*by: str) -> AggregateBolt:
    return AggregateBolt(by=by, n=aggregates.count(), spent=aggregates.sum("spent"))


READY = {
    "AggregateBolt": tumbling(total("user")),
    "TopN": tumbling(TopN(3, "spent")),
    "Rank": tumbling(Rank("spent")),
    "Changes": Changes(by="user", of="spent"),
    "Deduplicate": Deduplicate(by="user", within="1h"),
    "RateLimit": RateLimit(1, per="1h", by="user"),
    "Silence": Silence("1h", by="user"),
    "WindowJoin": tumbling(WindowJoin("spent", "orders", on="user")),
    "TemporalJoin": TemporalJoin("spent", "orders", on="user").with_timestamp_field("ts").with_lifetime("ts"),
}


@pytest.mark.parametrize("name", list(READY))
def test_a_ready_bolt_does_not_take_what_is_taken_back_for_events(name: str) -> None:
    builder, _ = behind(READY[name])
    with pytest.raises(
        TopologyError, match=r"'behind': reads 'spent', whose rows may take earlier ones back"
    ) as raised:
        builder.build()
    assert "AggregateBolt may have _retract in its key" in str(raised.value)


def test_an_aggregate_by_whether_rows_are_taken_back_tells_them_apart() -> None:
    builder, sink = behind(tumbling(total("user", "_retract")))
    run_local(builder.build())
    found = {row["_retract"]: (row["n"], row["spent"]) for row in sink.rows}
    assert found == {True: (1, 7.0), False: (3, 7.0 + 8.0 + 1.0)}


def test_a_bolt_of_one_s_own_between_them_may_let_through_what_counts() -> None:
    builder, sink = behind(tumbling(total("user")), plain=True)
    run_local(builder.build())
    assert [row["n"] for row in sink.rows] == [3]


def test_a_subclass_that_makes_rows_of_its_own_is_asked_to_know() -> None:
    class Net(AggregateBolt):
        outputs = "n long"

        def execute(self, window: TupleWindow) -> Any:
            return (sum(-1 if event["_retract"] else 1 for event in window.get()),)

    builder, sink = behind(tumbling(Net(n=aggregates.count())))
    run_local(builder.build())
    assert [row["n"] for row in sink.rows] == [2]


def test_a_union_passes_them_on_as_they_are() -> None:
    builder, sink = behind(Union())
    run_local(builder.build())
    assert sorted((row["spent"], row["_retract"]) for row in sink.rows) == [
        (1.0, False), (7.0, False), (7.0, True), (8.0, False),
    ]  # fmt: skip


def test_the_guide_s_reader_is_left_with_what_stands() -> None:
    block = next(
        part for part in (ROOT / "docs/corrections.md").read_text("utf-8").split("```python") if "def standing" in part
    )
    names: dict[str, Any] = {}
    exec(block.split("\nrows =")[0], names)
    builder, sink = behind(Union())
    run_local(builder.build())
    assert names["standing"](sink.rows) == [
        {"user": "ada", "spent": 8.0, "ts": 1_000},
        {"user": "ada", "spent": 1.0, "ts": 25_000},
    ]
