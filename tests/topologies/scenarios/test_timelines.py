"""A timeline places events at their times, and shows every word of its labels and remarks, however narrow it is."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.topologies.scenarios.test_drawn_windows import Sizes
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.timeline import timeline
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

STEPS: list[dict[str, Any]] = [
    {"event": {"id": "a", "ts": 1_000}, "stream": "orders"},
    {"event": {"id": "b", "ts": 9_000}, "stream": "orders"},
    {"event": {"id": "c", "ts": 4_000}, "stream": "orders"},
    {"tick": "watermark"},
    {"close": True},
]


def shop(*, fields: tuple[str, ...] = ("ts",)) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory("id string, ts long, paid long"))
    for field in fields:
        builder.set_bolt(f"by-{field}", Sizes().with_tumbling_window("5s").with_timestamp_field(field)).global_grouping(
            "orders"
        )
        builder.set_sink(f"of-{field}", sinks.memory()).from_(f"by-{field}")
    return builder.build()


def lines(scenario: dict[str, Any], topology: Topology | None = None, width: int = 80) -> list[str]:
    file = StringIO()
    read = read_scenario(scenario)
    Console(file=file, width=width, force_jupyter=False, legacy_windows=False).print(
        timeline(read, replay_locally(read, topology))
    )
    return [line.rstrip() for line in file.getvalue().splitlines()]


def places(drawn: list[str], names: str) -> list[int]:
    """In which column the event of each name stands on its own row."""
    rows = [next(line for line in drawn if line.startswith(f"{name} orders")) for name in names]
    return [row.index("●") for row in rows]


def test_events_of_a_topology_stand_at_their_times_and_not_in_the_order_of_their_arrival() -> None:
    drawn = lines({"name": "s", "topology": "t", "steps": STEPS}, shop())
    first, second, third = places(drawn, "abc")
    assert first < third < second
    assert "c orders 4000" in "\n".join(drawn)


def test_events_that_have_several_times_stand_in_the_order_of_their_arrival() -> None:
    steps = [step | {"event": step["event"] | {"paid": 0}} if "event" in step else step for step in STEPS]
    drawn = lines({"name": "s", "topology": "t", "steps": steps}, shop(fields=("ts", "paid")))
    first, second, third = places(drawn, "abc")
    assert first < second < third


def test_events_that_share_an_id_have_no_time_on_the_axis() -> None:
    steps = [{"event": {"id": "a", "ts": at}, "stream": "orders"} for at in (9_000, 1_000)]
    drawn = lines({"name": "s", "topology": "t", "steps": [*steps, {"close": True}]}, shop())
    assert [" ".join(line.split()) for line in drawn if line.startswith("a orders")] == [
        "a orders ● ● (id not unique)"
    ] * 2


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_remark_label_or_setting_is_cut(width: int) -> None:
    times = ["2024-01-01T22:13:57.028Z", "2024-01-02T22:13:58.123Z"]
    steps: list[dict[str, Any]] = [{"event": {"id": f"event-{at}", "ts": time}} for at, time in enumerate(times)]
    bolt = {"length": "1d", "sliding": "12h", "timestamp_field": "ts", "lag": "5s", "late_stream": "too-late"}
    steps += [{"event": {"id": "none", "tss": times[0]}}, {"tick": "watermark"}, {"crash": True}, {"close": True}]
    drawn = lines({"name": "s", "bolt": bolt, "steps": steps}, width=width)
    assert max(map(cell_len, drawn)) <= width
    assert not any(line.endswith("…") for line in drawn)
    words = {word for line in drawn for word in line.split()}
    for remark in ("recovers from the last commit", "invalid: no 'ts', but 'tss'", "late_stream too-late"):
        assert words.issuperset(remark.split())
