"""Window joins against every pair, one by one; and what of them is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.graph.describing import topology_text
from topologies.local import run_local
from topologies.run.options import RunOptions
from windbolt import (
    BatchBolt,
    CheckpointError,
    ConfigError,
    Session,
    TemporalJoin,
    TopologyBuilder,
    TopologyError,
    WindowJoin,
    sinks,
    spouts,
)
from windbolt.policies import Action, EvictionPolicy, TriggerPolicy
from windbolt.testing import run_bolt

Json = dict[str, Any]
PERSONS = "id long, name string, ts long"
AUCTIONS = "id long, seller int, price double, ts long"
ON = {"persons": "id", "auctions": "seller"}
PEOPLE: list[Json] = [
    {"id": 1, "name": "ada", "ts": 1_000},
    {"id": 2, "name": "bob", "ts": 2_000},
    {"id": 1, "name": "ann", "ts": 12_000},
]
SALES: list[Json] = [
    {"id": 70, "seller": 1, "price": 5.0, "ts": 3_000},
    {"id": 71, "seller": 1, "price": 6.0, "ts": 4_000},
    {"id": 72, "seller": 3, "price": 7.0, "ts": 5_000},
    {"id": 73, "seller": 2, "price": 8.0, "ts": 11_000},
    {"id": 74, "seller": None, "price": 9.0, "ts": 11_000},
]


def join(how: Any = "inner", **options: Any) -> WindowJoin:
    bolt = WindowJoin("persons", "auctions", on=ON, how=how, **options).with_tumbling_window("10s")
    return bolt.with_alignment(bounds="[start, end)").with_timestamp_field("ts").with_lag("60s")


def rows_of(bolt: Any, persons: list[Json], auctions: list[Json]) -> list[Json]:
    return run_bolt(bolt, {"persons": persons, "auctions": auctions}, {"persons": PERSONS, "auctions": AUCTIONS}).rows


def test_pairs_of_a_window_with_names_of_their_own() -> None:
    rows = rows_of(join(start="since", end="until"), PEOPLE, SALES)
    assert [(row["persons_id"], row["name"], row["auctions_id"], row["seller"], row["price"]) for row in rows] == [
        (1, "ada", 70, 1, 5.0),
        (1, "ada", 71, 1, 6.0),
    ]
    assert list(rows[0]) == [
        "persons_id", "name", "persons_ts", "seller", "auctions_id", "price", "auctions_ts", "since", "until",
    ]  # fmt: skip
    assert (rows[0]["until"] - rows[0]["since"]).total_seconds() == 10


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("left", [(1, 70), (1, 71), (2, None), (1, None)]),
        ("right", [(1, 70), (1, 71), (None, 72), (None, 73), (None, 74)]),
        ("full", [(1, 70), (1, 71), (2, None), (None, 72), (1, None), (None, 73), (None, 74)]),
    ],
)
def test_events_without_a_partner(how: str, wanted: list[Any]) -> None:
    rows = rows_of(join(how), PEOPLE, SALES)
    assert [(row["persons_id"], row["auctions_id"]) for row in rows] == wanted


def test_left_events_with_a_partner_and_without_one() -> None:
    assert rows_of(join("semi"), PEOPLE, SALES) == [{"id": 1, "name": "ada", "ts": 1_000}]
    assert [row["name"] for row in rows_of(join("anti"), PEOPLE, SALES)] == ["bob", "ann"]
    assert rows_of(join("semi", outputs="name string"), PEOPLE, SALES) == [{"name": "ada"}]


def test_a_key_of_one_name_is_one_column() -> None:
    bolt = WindowJoin("a", "b", on=["k", "part"], how="full").with_tumbling_window(4)
    sides = {
        "a": [{"k": "x", "part": 1, "v": 1}, {"k": "y", "part": 1, "v": 2}],
        "b": [{"k": "y", "part": 1, "v": 3}, {"k": "y", "part": 2, "v": 4}],
    }
    assert run_bolt(bolt, sides).rows == [
        {"k": "x", "part": 1, "a_v": 1, "b_v": None},
        {"k": "y", "part": 1, "a_v": 2, "b_v": 3},
        {"k": "y", "part": 2, "a_v": None, "b_v": 4},
    ]


def test_windows_of_any_kind() -> None:
    bolt = WindowJoin("a", "b", on="k").with_window(Session("5s")).with_key("k").with_timestamp_field("ts")
    schema = "k string, v long, ts long"
    sides = {
        "a": [{"k": "x", "v": 1, "ts": 0}, {"k": "x", "v": 2, "ts": 20_000}],
        "b": [{"k": "x", "v": 3, "ts": 4_000}, {"k": "y", "v": 4, "ts": 21_000}],
    }
    assert [(row["a_v"], row["b_v"]) for row in run_bolt(bolt, sides, {"a": schema, "b": schema}).rows] == [(1, 3)]


# ---- against every pair


def partners(key: Any, other: Any) -> bool:
    return key is not None and other is not None and key == other


def slowly(how: str, persons: list[Json], auctions: list[Json]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for begin in sorted({row["ts"] // 10 * 10 for row in persons + auctions}):
        left = [row for row in persons if begin <= row["ts"] < begin + 10]
        right = [row for row in auctions if begin <= row["ts"] < begin + 10]
        pairs = [(one, other) for one in left for other in right if partners(one["id"], other["seller"])]
        lonely = [one for one in left if not any(pair[0] is one for pair in pairs)]
        spare = [other for other in right if not any(pair[1] is other for pair in pairs)]
        if how in ("inner", "left", "right", "full"):
            found += [(begin, one["name"], other["id"]) for one, other in pairs]
        if how == "semi":
            found += [(begin, one["name"], None) for one in left if one not in lonely]
        if how in ("left", "full", "anti"):
            found += [(begin, one["name"], None) for one in lonely]
        if how in ("right", "full"):
            found += [(begin, None, other["id"]) for other in spare]
    return found


KEYS = st.one_of(st.none(), st.integers(0, 4))
TIMES = st.integers(0, 39)
PERSON_ROWS = st.lists(st.tuples(KEYS, TIMES), max_size=12)


@examples(150)
@given(
    how=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    persons=PERSON_ROWS,
    auctions=PERSON_ROWS,
    tasks=st.integers(1, 3),
    cut=st.integers(1, 12),
    few=st.booleans(),
)
def test_a_join_is_every_pair_of_every_window(
    how: Any, persons: Any, auctions: Any, tasks: int, cut: int, few: bool
) -> None:
    people = [{"id": key, "name": f"p{at}", "ts": ts} for at, (key, ts) in enumerate(persons)]
    sales = [{"id": at, "seller": key, "price": 1.0, "ts": ts} for at, (key, ts) in enumerate(auctions)]
    sided = how not in ("semi", "anti")
    outputs = "since timestamp, name string" + (", auctions_id long" if sided else "") if few else None
    bolt = WindowJoin("persons", "auctions", on=ON, how=how, start="since", outputs=outputs)
    bolt = bolt.with_tumbling_window("10ms")
    bolt = bolt.with_alignment(bounds="[start, end)").with_timestamp_field("ts").with_lag("1s")
    builder, out = TopologyBuilder("join"), sinks.memory()
    builder.set_spout("persons", spouts.memory(PERSONS, *_cut(people, cut)))
    builder.set_spout("auctions", spouts.memory(AUCTIONS, *_cut(sales, cut)))
    declared = builder.set_bolt("join", bolt, tasks)
    declared.fields_grouping("persons", "id").fields_grouping("auctions", "seller")
    builder.set_sink("out", out).from_("join")
    run_local(builder.build(), RunOptions())
    found = [
        (round(row["since"].timestamp() * 1000), row["name"], row["auctions_id"] if sided else None) for row in out.rows
    ]
    assert sorted(found, key=str) == sorted(slowly(how, people, sales), key=str)


def _cut(rows: list[Json], size: int) -> list[list[Json]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_keys_of_structs_meet_at_one_task(tasks: int) -> None:
    builder, out = TopologyBuilder("join"), sinks.memory()
    values = [0.0, -0.0, float("nan"), 1.5, *map(float, range(40))]
    for name, column in (("a", "v"), ("b", "w")):
        rows = [{"k": {"x": -value if name == "b" and not value else value}, column: 1} for value in values]
        builder.set_spout(name, spouts.memory(f"k struct<x: double>, {column} int", rows))
    bolt = WindowJoin("a", "b", on="k").with_tumbling_window("1h")
    builder.set_bolt("join", bolt, tasks).fields_grouping("a", "k").fields_grouping("b", "k")
    builder.set_sink("out", out).from_("join")
    run_local(builder.build(), RunOptions())
    assert len(out.rows) == 9 + len(values) - 3


def test_many_pairs_of_one_key_come_in_pieces() -> None:
    many = [{"k": 1, "v": "x" * 40}] * 1_100
    bolt = WindowJoin("a", "b", on="k", outputs="a_v string").with_tumbling_window(2_200)
    run = run_bolt(bolt, {"a": many, "b": many}, {"a": "k int, v string", "b": "k int, v string"})
    assert len(run.rows) == 1_100 * 1_100


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: WindowJoin("a", "b", on=[]), "key columns"),
        (lambda: WindowJoin("a", "b", on=["k", "k"]), "each once"),
        (lambda: WindowJoin("a", "b", on=None), "key columns"),  # type: ignore[arg-type]
        (lambda: WindowJoin("a", "a", on="k"), "with itself"),
        (lambda: WindowJoin("a", "b", on={"a": "k"}), r"use on=\{'a': \.\.\., 'b'"),
        (lambda: WindowJoin("a", "b", on={"a": "k", "c": "k"}), r"columns of 'a', 'c'"),
        (lambda: WindowJoin("a", "b", on={"a": ["k", "l"], "b": "k"}), "2 columns of 'a' and 1 of 'b'"),
        (lambda: WindowJoin("a", "b", on="k", how="outer"), "none of inner, left"),  # type: ignore[arg-type]
        (lambda: WindowJoin("a", "b", on="k", rename="{column}"), "different names"),
        (lambda: WindowJoin("a", "b", on="k", start=5), "start=5"),  # type: ignore[arg-type]
        (lambda: WindowJoin("a", "b", on="k", end=""), "end=''"),
        (lambda: WindowJoin(["a"], "b", on="k"), "names of two streams"),  # type: ignore[arg-type]
    ],
)
def test_joins_that_cannot_be_are_refused_where_they_are_made(make: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"on": "name"}, "'name' of 'auctions'.*'auctions' has id, seller"),
        ({"on": {"persons": "name", "auctions": "seller"}}, "not compared"),
        ({"on": ON, "start": "name"}, "two columns 'name'"),
        ({"on": ON, "outputs": "id long"}, "no column 'id'"),
    ],
)
def test_joins_that_do_not_fit_their_streams_are_refused_when_they_are_built(options: Json, what: str) -> None:
    bolt = WindowJoin("persons", "auctions", **options).with_tumbling_window("10s").with_timestamp_field("ts")
    with pytest.raises(TopologyError, match=what):
        rows_of(bolt, PEOPLE, SALES)


def topology(group: Any, tasks: int = 2) -> Any:
    builder = TopologyBuilder("join")
    builder.set_spout("persons", spouts.memory(PERSONS))
    builder.set_spout("auctions", spouts.memory(AUCTIONS))
    group(builder.set_bolt("join", join(), tasks))
    builder.set_sink("out", sinks.memory()).from_("join")
    return builder.build()


@pytest.mark.parametrize(
    "group",
    [
        lambda bolt: bolt.fields_grouping("persons", "id").fields_grouping("auctions", "id"),
        lambda bolt: bolt.fields_grouping("persons", "id").shuffle_grouping("auctions"),
        lambda bolt: bolt.fields_grouping("persons", "name").fields_grouping("auctions", "seller"),
        lambda bolt: bolt.global_grouping("persons").fields_grouping("auctions", "seller"),
    ],
)
def test_groupings_by_which_partners_would_not_meet_are_refused_with_the_right_ones(group: Any) -> None:
    with pytest.raises(TopologyError) as refused:
        topology(group)
    assert "fields_grouping('persons', 'id') and fields_grouping('auctions', 'seller')" in str(refused.value)
    topology(group, tasks=1)


def test_the_call_for_a_stream_of_another_name_can_be_written_as_it_is_advised() -> None:
    class Split(BatchBolt):
        outputs = {"default": "k int", "odd": "k int"}  # noqa: RUF012

        def execute(self, batch: Any) -> Any:
            return batch

    def built(group: Any) -> None:
        builder = TopologyBuilder("t")
        builder.set_spout("in", spouts.memory("k int"))
        builder.set_bolt("s", Split()).shuffle_grouping("in")
        join = WindowJoin("s", "s.odd", on="k").with_tumbling_window(2)
        group(builder.set_bolt("j", join, 2))
        builder.set_sink("out", sinks.memory()).from_("j")
        builder.build()

    advice = r"fields_grouping\('s', 'k'\) and fields_grouping\('s', 'k', stream='odd'\)"
    with pytest.raises(TopologyError, match=advice):
        built(lambda bolt: bolt.shuffle_grouping("s").shuffle_grouping("s", stream="odd"))
    built(lambda bolt: bolt.fields_grouping("s", "k").fields_grouping("s", "k", stream="odd"))
    with pytest.raises(TopologyError, match=r"grouping\('s', ..., stream='odd'\)"):
        built(lambda bolt: bolt.fields_grouping("s", "k").fields_grouping("s.odd", "k"))


def test_keys_that_cannot_be_compared_are_refused_when_they_are_built() -> None:
    bolt = WindowJoin("a", "b", on="k").with_tumbling_window(2)
    with pytest.raises(TopologyError, match="lists and maps are not"):
        run_bolt(bolt, {"a": [], "b": []}, {"a": "k array<int>", "b": "k array<int>"})


def test_a_bolt_without_outputs_is_told_so() -> None:
    class Silent(BatchBolt):
        def execute(self, batch: Any) -> Any:
            return batch

    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory("k int"))
    builder.set_bolt("s", Silent()).shuffle_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("s")
    with pytest.raises(TopologyError, match="it declares no outputs"):
        builder.build()


def test_it_is_described() -> None:
    built = topology(lambda bolt: bolt.fields_grouping("persons", "id").fields_grouping("auctions", "seller"))
    assert "persons, auctions on id = seller (inner)" in topology_text(built)
    topology(lambda bolt: bolt.global_grouping("persons").global_grouping("auctions"))


@pytest.mark.parametrize(
    "join_of",
    [join, lambda **names: TemporalJoin("persons", "auctions", on=ON, **names)],
    ids=["window", "temporal"],
)
@pytest.mark.parametrize("moment", ["start", "end"])
def test_a_moment_that_the_outputs_leave_out_is_refused(join_of: Any, moment: str) -> None:
    with pytest.raises(ConfigError, match=f"a join with {moment}='then', and outputs= without 'then'"):
        join_of(outputs="name string", **{moment: "then"})
    join_of(outputs="name string, then timestamp", **{moment: "then"})
    join_of(outputs="name string")


def test_a_moment_that_the_outputs_name_is_there() -> None:
    rows = rows_of(join(outputs="name string, since timestamp", start="since"), PEOPLE, SALES)
    assert {str(row["since"])[:19] for row in rows} == {"1970-01-01 00:00:00"}


class Kept(WindowJoin):
    """A join with code of its own."""


@pytest.mark.parametrize(
    ("bolt", "columns"),
    [
        (join(outputs="name string, seller int"), "id name ts seller"),
        (join(), "id name ts seller price"),
        (join(outputs="name string").with_late_tuple_stream("late"), "id name ts seller price"),
        (
            Kept("persons", "auctions", on=ON, outputs="name string").with_tumbling_window("10s"),
            "id name ts seller price",
        ),
        (
            TemporalJoin("persons", "auctions", on=ON, outputs="name string")
            .with_lifetime("price")
            .with_timestamp_field("ts"),
            "id name ts seller price",
        ),
        (
            TemporalJoin("persons", "auctions", on=ON, versions=True, outputs="name string").with_timestamp_field("ts"),
            "id name ts seller",
        ),
    ],
    ids=["few", "all", "with late events", "of a user", "with lifetimes", "of versions"],
)
def test_a_run_reads_and_keeps_the_columns_of_the_outputs_and_the_rules(bolt: Any, columns: str) -> None:
    builder = TopologyBuilder("join")
    builder.set_spout("persons", spouts.memory(PERSONS))
    builder.set_spout("auctions", spouts.memory(AUCTIONS.replace("price double", "price timestamp")))
    declared = builder.set_bolt("join", bolt)
    declared.fields_grouping("persons", "id").fields_grouping("auctions", "seller")
    builder.set_sink("out", sinks.memory()).from_("join")
    assert sorted(builder.build().windowed["join"].schema.names) == sorted(columns.split())


def test_a_late_stream_comes_to_a_checkpoint_only_where_the_columns_stay(tmp_path: Path) -> None:
    """As settings.md says: with ``outputs``, a join without a late stream has not kept all columns."""

    def run(bolt: Any, checkpoint: str) -> None:
        builder = TopologyBuilder("join")
        builder.set_spout("persons", spouts.memory(PERSONS, PEOPLE))
        builder.set_spout("auctions", spouts.memory(AUCTIONS, SALES))
        declared = builder.set_bolt("join", bolt)
        declared.fields_grouping("persons", "id").fields_grouping("auctions", "seller")
        builder.set_sink("out", sinks.memory()).from_("join")
        run_local(builder.build(), RunOptions(str(tmp_path / checkpoint), keep_open=True))

    run(join(), "all")
    run(join().with_late_tuple_stream("late"), "all")
    run(join(outputs="name string"), "few")
    run(join(outputs="seller int, name string"), "few")
    with pytest.raises(CheckpointError, match="bolt 'join': columns was 'id long, name string, ts long, seller int'"):
        run(join(outputs="name string").with_late_tuple_stream("late"), "few")


class KeepsAll(EvictionPolicy):
    reads = "price"

    def evict(self, event: Any, context: Any) -> Action:
        return Action.PROCESS


class WithoutNames(TriggerPolicy):
    reads: ClassVar[Any] = 7

    def track(self, event: Any, context: Any) -> bool:
        return True


def test_columns_that_a_policy_cannot_read_are_told_once() -> None:
    bolt = WindowJoin("persons", "auctions", on=ON, outputs="name string").with_policies(trigger=WithoutNames())
    builder = TopologyBuilder("join")
    builder.set_spout("persons", spouts.memory(PERSONS))
    builder.set_spout("auctions", spouts.memory(AUCTIONS))
    declared = builder.set_bolt("join", bolt.with_policies(eviction=KeepsAll()))
    declared.fields_grouping("persons", "id").fields_grouping("auctions", "seller")
    builder.set_sink("out", sinks.memory()).from_("join")
    with pytest.raises(TopologyError, match=r"1 problem:\n.*WithoutNames.reads = 7"):
        builder.build()
