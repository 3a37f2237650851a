"""Partial expectations: some rows of a sink, some columns, some windows of one bolt by name."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.io import sinks, spouts
from topologies.testing.replaying import replay
from topologies.topology import TopologyBuilder
from windowing import AggregateBolt, WindowedBolt
from windowing.aggregates import count, sum
from windowing.errors import ScenarioError
from windowing.window import TupleWindow


class _Revenue(WindowedBolt):
    outputs = "user string, revenue double, size long"

    def execute(self, window: TupleWindow) -> Any:
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum(), len(amounts)


def _topology() -> Any:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("id string, user string, amount double, ts timestamp"))
    bolt = _Revenue().with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("revenue", bolt).global_grouping("orders")
    total = AggregateBolt(n=count(), total=sum("revenue")).with_tumbling_window("20s")
    builder.set_bolt("total", total).global_grouping("revenue")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    builder.set_sink("totals", sinks.memory()).from_("total")
    return builder.build()


def _scenario(**includes: Any) -> dict[str, Any]:
    orders = [("a", "ada", 2.0, 1), ("b", "bob", 1.0, 4), ("c", "ada", 3.0, 15)]
    steps = [
        {"event": {"id": n, "user": u, "amount": x, "ts": f"2024-01-01T06:00:{s:02}Z"}, "stream": "orders"}
        for n, u, x, s in orders
    ]
    late = {"event": {"id": "d", "user": "cy", "amount": 1.0, "ts": "2024-01-01T06:00:02Z"}, "stream": "orders"}
    all_steps = [*steps, {"tick": "watermark"}, late, {"close": True}]
    return {"name": "part", "topology": "given", "steps": all_steps, "expect": {"includes": includes}}


END = "2024-01-01T06:00:10Z"


@pytest.mark.parametrize(
    "includes",
    [
        {"outputs": {"out": [{"user": "bob"}]}},
        {"outputs": {"out": [{"user": "ada"}, {"user": "ada", "revenue": 3.0}]}},
        {"outputs": {"totals": [{"n": 3}]}},
        {"windows": [{"bolt": "revenue", "end": END, "events": ["a", "b"]}]},
        {"windows": [{"bolt": "total", "end": "2024-01-01T06:00:20Z"}, {"bolt": "revenue", "end": END}]},
        {"windows": [{"end": END}]},
        {"late": ["d"]},
        {"late": ["d"], "outputs": {"out": [{"size": 1}]}},
    ],
)
def test_what_is_among_the_answer(includes: dict[str, Any]) -> None:
    answer = replay(_scenario(**includes), _topology())
    assert answer.ok, answer.differences


@pytest.mark.parametrize(
    ("includes", "difference"),
    [
        ({"outputs": {"out": [{"user": "cy"}]}}, "includes.outputs.out: expected {user: cy}, not among 3 rows"),
        (
            {"outputs": {"out": [{"user": "bob"}, {"revenue": 2.0}]}},
            "includes.outputs.out: expected {revenue: 2.0}, not among 3 rows after the 1 before it",
        ),
        (
            {"windows": [{"bolt": "total", "end": END}]},
            'includes.windows: expected {bolt: total, end: "2024-01-01T06:00:10Z"}, not fired',
        ),
        ({"windows": [{"bolt": "revenue", "events": ["a"]}]}, "includes.windows: expected"),
        ({"late": ["a"]}, "includes.late: expected a, found [d]"),
    ],
)
def test_what_is_not(includes: dict[str, Any], difference: str) -> None:
    answer = replay(_scenario(**includes), _topology())
    assert not answer.ok
    assert difference in answer.differences[0]


@pytest.mark.parametrize(
    ("includes", "problem"),
    [
        ({"outputs": {"ot": [{"user": "ada"}]}}, "did you mean 'out'"),
        ({"outputs": {"out": [{"usr": "ada"}]}}, "did you mean 'user'"),
        ({"windows": [{"bolt": "revenu", "end": END}]}, "did you mean 'revenue'"),
        ({}, "found nothing"),
        ({"outputs": {"out": []}}, "found nothing"),
        ({"outputs": {"out": [{}]}}, "found nothing"),
        ({"window": []}, "did you mean 'windows'"),
    ],
)
def test_what_could_not_fail_is_malformed(includes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        replay(_scenario(**includes), _topology())


BESIDE_ROWS = "(all that is expected came out, beside other rows; to expect a part of what comes out: expect.includes)"
BESIDE_COLUMNS = BESIDE_ROWS.replace("other rows", "other columns")
FIRED = "(all that is expected has fired; to expect a part of what comes out: expect.includes)"
ADA = {"user": "ada", "revenue": 2.0, "size": 1}
BOB = {"user": "bob", "revenue": 1.0, "size": 1}
LAST = {"user": "ada", "revenue": 3.0, "size": 1}


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ([ADA, BOB], BESIDE_ROWS),
        ([ADA, LAST], BESIDE_ROWS),
        ([{"user": "bob"}], BESIDE_ROWS),
        ([{"user": "ada"}, BOB, LAST], BESIDE_COLUMNS),
        ([BOB, ADA, LAST], "(all that is expected came out, in another order)"),
        ([], "(to expect a part of what comes out: expect.includes)"),
    ],
)
def test_a_difference_that_only_the_rest_makes_says_how_a_part_is_expected(
    rows: list[dict[str, Any]], hint: str
) -> None:
    expect = {"outputs": {"out": rows, "totals": [{"n": 3, "total": 6.0}]}}
    differences = replay({**_scenario(), "expect": expect}, topology=_topology()).differences
    assert differences[0].endswith(f"}} {hint}"), differences
    assert not any("came out" in each for each in differences[1:])


def test_of_a_sink_that_is_not_named_nothing_is_expected_and_the_difference_says_so() -> None:
    differences = replay(
        {**_scenario(), "expect": {"outputs": {"out": [ADA, BOB, LAST]}}}, topology=_topology()
    ).differences
    assert differences == [
        "outputs.totals[0]: expected nothing, found {n: 3, total: 6.0} (of a sink that expect.outputs does not name, "
        "nothing is expected: name it, or use expect.includes)",
        "outputs.totals: expected 0 rows, found 1",
    ]


def test_the_events_of_a_topology_with_one_spout_need_not_name_it() -> None:
    scenario = _scenario(outputs={"out": [{"user": "ada"}]}, late=["d"])
    scenario["steps"] = [{name: each for name, each in step.items() if name != "stream"} for step in scenario["steps"]]
    scenario["steps"] = [{"expect": {"pending": []}}, *scenario["steps"], {"expect": {"late": ["d"]}}]
    answer = replay(scenario, _topology())
    assert answer.ok, answer.differences
    assert "d " in answer.draw()


def test_where_there_are_two_spouts_an_event_must_name_its_own() -> None:
    builder = TopologyBuilder("two")
    builder.set_spout("orders", spouts.memory("ts timestamp"))
    builder.set_spout("more", spouts.memory("ts timestamp"))
    bolt = AggregateBolt(n=count()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("size", bolt).global_grouping("orders").global_grouping("more")
    builder.set_sink("out", sinks.memory()).from_("size")
    scenario = {"name": "two", "topology": "given", "steps": [{"event": {"ts": 1}}, {"close": True}]}
    with pytest.raises(ScenarioError, match=r"does not say to which spout its events go\. the spouts .* orders, more"):
        replay(scenario, builder.build())


@pytest.mark.parametrize("rows", [[{**ADA, "revenue": 9.0}], [ADA, BOB, LAST, LAST], [{**ADA, "place": "x"}]])
def test_a_difference_in_what_is_expected_has_no_such_hint(rows: list[dict[str, Any]]) -> None:
    expect = {"outputs": {"out": rows, "totals": [{"n": 3, "total": 6.0}]}}
    differences = replay({**_scenario(), "expect": expect}, topology=_topology()).differences
    assert differences
    assert "includes" not in "".join(differences)


def test_windows_that_fire_beside_those_expected_say_so_too() -> None:
    scenario = _scenario()
    del scenario["expect"]
    fired = replay(scenario, topology=_topology()).windows
    assert len(fired) > 2
    times = [{"bolt": each["bolt"], "end": each["end"]} for each in fired]
    for part in (times[:1], times[1:]):
        difference, number = replay({**scenario, "expect": {"windows": part}}, topology=_topology()).differences
        assert difference.endswith(FIRED)
        assert number.startswith("windows: expected")
    wrong = [{"bolt": "revenue", "end": "2024-01-01T07:00:00Z"}, *times]
    assert "includes" not in "".join(
        replay({**scenario, "expect": {"windows": wrong}}, topology=_topology()).differences
    )


@pytest.mark.parametrize(
    ("counts", "differences"),
    [
        ({"late": 1}, []),
        ({"dropped": 0, "adjusted": 0}, []),
        ({"late": 0}, ["counts.late: expected 0, found 1"]),
        ({"late": 1, "early": 2}, ["counts.early: expected 2, found 0"]),
    ],
)
def test_counts_are_compared_on_the_names_that_are_given(counts: dict[str, int], differences: list[str]) -> None:
    answer = replay({**_scenario(), "expect": {"counts": counts}}, _topology())
    assert answer.differences == differences
