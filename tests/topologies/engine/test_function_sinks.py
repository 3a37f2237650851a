"""Functions of users as sinks: when they are called, and with what."""

from __future__ import annotations

from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows


class Ends(WindowedBolt):
    outputs = "n long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return len(window), window.end


def test_a_function_sink_is_given_an_id_once_the_closing_too() -> None:
    called: list[int] = []
    builder = TopologyBuilder("ids")
    builder.set_spout("events", spouts.memory("ts timestamp", [(1_000_000,), (12_000_000,)], [(25_000_000,)]))
    builder.set_bolt("ends", Ends().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.foreach_batch(lambda frame, id: called.append(id), frame="arrow")).from_("ends")
    run_local(builder.build())
    assert called == sorted(set(called))
    assert len(called) == 3
