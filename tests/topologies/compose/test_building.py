"""What ``build()`` finds wrong with a topology: every mistake, all at once, in words that tell what to do."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from policies import CountTriggerPolicy, WatermarkCountTriggerPolicy
from topologies.graph.graph import Input
from topologies.graph.groupings import FieldsGrouping, hash_class, hash_rows
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local
from windbolt.testing import run_bolt
from windowing import (
    AggregateBolt,
    Bolt,
    Changes,
    ConfigError,
    Count,
    StatefulWindowedBolt,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    WindowJoin,
    presets,
    seconds,
)
from windowing.aggregates import count
from windowing.settings.kinds import Calendar, Hopping, Session, SlidingLog

WRONG: Any = 30
HALF: Any = 1.5
NAME: Any = "ts"
ORDERS = "user string, amount double, ts timestamp"


class Total(WindowedBolt):
    outputs: ClassVar[Any] = "user string, total double"

    def execute(self, window: TupleWindow) -> None:
        return None


class Pass(Bolt):
    outputs: ClassVar[Any] = ORDERS

    def execute(self, tuple: Any) -> Any:
        return tuple.values


def tumbling() -> WindowedBolt:
    return Total().with_tumbling_window("10s")


def timed() -> WindowedBolt:
    return tumbling().with_timestamp_field("ts")


def a_builder(**settings: Any) -> TopologyBuilder:
    """A topology with nothing wrong."""
    builder = TopologyBuilder("orders", **settings)
    builder.set_spout("orders", spouts.memory(ORDERS))
    builder.set_bolt("total", timed()).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.memory()).from_("total")
    return builder


def problems(builder: TopologyBuilder) -> list[str]:
    with pytest.raises(TopologyError) as found:
        builder.build()
    return [str(problem) for problem in found.value.problems]


def the_problem(builder: TopologyBuilder) -> str:
    (problem,) = problems(builder)
    assert problem.endswith(".")
    return problem


def test_a_topology_without_mistakes_is_built() -> None:
    topology = a_builder().build()
    assert isinstance(topology, Topology)
    assert list(topology.windowed) == ["total"]
    assert topology.readers["orders", "default"] == (("total", 0),)
    assert topology.sinks_reading["total", "default"] == ("out",)


def test_no_spout() -> None:
    assert "there is no spout" in the_problem(TopologyBuilder("empty"))


def test_a_circle_of_bolts_is_named() -> None:
    builder = a_builder()
    builder.set_bolt("a", Pass()).shuffle_grouping("c")
    builder.set_bolt("b", Pass()).shuffle_grouping("a")
    builder.set_bolt("c", Pass()).shuffle_grouping("b")
    problem = the_problem(builder)
    assert "in a circle" in problem
    assert all(name in problem for name in "abc")


def test_a_bolt_that_reads_itself() -> None:
    builder = a_builder()
    builder.set_bolt("a", Pass()).shuffle_grouping("a")
    assert "a -> a" in the_problem(builder)


def test_an_unknown_component_is_reported_with_those_there_are() -> None:
    builder = a_builder()
    builder.set_bolt("more", timed()).global_grouping("oders")
    assert "'oders'" in the_problem(builder)
    assert "there are orders, total" in the_problem(builder)


def test_an_unknown_stream_is_reported_with_those_there_are() -> None:
    builder = a_builder()
    builder.set_sink("late", sinks.memory()).from_("total", "late")
    assert "stream 'late' of 'total'" in the_problem(builder)
    assert "default, errors" in the_problem(builder)
    assert "with_late_tuple_stream" in the_problem(builder)


def test_an_unknown_field_of_a_grouping_is_reported_with_those_there_are() -> None:
    builder = a_builder()
    builder.set_bolt("more", timed()).fields_grouping("orders", "usr")
    assert "'usr'" in the_problem(builder)
    assert "user, amount, ts" in the_problem(builder)


def test_a_fields_grouping_without_fields_of_a_bolt_without_a_key() -> None:
    builder = a_builder()
    builder.set_bolt("more", timed()).fields_grouping("orders")
    assert "by no fields" in the_problem(builder)
    assert "the bolt no key" in the_problem(builder)


def test_a_fields_grouping_without_fields_of_a_plain_bolt() -> None:
    builder = a_builder()
    builder.set_bolt("plain", Pass()).fields_grouping("orders")
    assert "by no fields" in the_problem(builder)


@pytest.mark.parametrize(
    ("bolt", "fields"),
    [
        (timed().with_key("user"), ("user",)),
        (AggregateBolt(by=["user", "amount"], n=count()).with_tumbling_window("1m").with_timestamp_field("ts"),
         ("user", "amount")),
        (AggregateBolt(by="amount", n=count()).with_window(Session("1m")).with_key("user").with_timestamp_field("ts"),
         ("user",)),
        (AggregateBolt(n=count()).with_window(Session("1m")).with_key("user").with_timestamp_field("ts"), ("user",)),
        (Changes("user", of="amount").with_timestamp_field("ts"), ("user",)),
    ],
)  # fmt: skip
def test_a_fields_grouping_without_fields_is_by_the_key_of_the_bolt(
    bolt: WindowedBolt, fields: tuple[str, ...]
) -> None:
    def built(*given: str) -> Topology:
        builder = a_builder()
        builder.set_bolt("more", bolt, 3).fields_grouping("orders", *given)
        return builder.build()

    assert built().windowed["more"].inputs == (Input(("orders", "default"), FieldsGrouping(fields)),)
    assert built().windowed["more"].inputs == built(*fields).windowed["more"].inputs


def test_a_join_is_grouped_by_its_key_of_each_stream() -> None:
    builder = a_builder()
    builder.set_spout("users", spouts.memory("id string, since timestamp, ts timestamp"))
    join = WindowJoin("orders", "users", on={"orders": "user", "users": "id"}).with_tumbling_window("1m")
    bolt = builder.set_bolt("joined", join.with_timestamp_field("ts"), 2)
    bolt.fields_grouping("orders").fields_grouping("users")
    inputs = builder.build().windowed["joined"].inputs
    assert [each.grouping for each in inputs] == [FieldsGrouping(("user",)), FieldsGrouping(("id",))]


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ({}, [{"user": "bob", "n": 1}, {"user": "ada", "n": 2}]),
        ({"by": ()}, [{"n": 1}, {"n": 2}]),
        ({"by": "amount"}, [{"amount": 3.0, "n": 1}, {"amount": 1.0, "n": 1}, {"amount": 2.0, "n": 1}]),
    ],
)
def test_an_aggregate_bolt_without_by_has_the_key_of_its_windows(by: Any, rows: list[dict[str, Any]]) -> None:
    bolt = AggregateBolt(**by, n=count()).with_window(Session("5s")).with_key("user").with_timestamp_field("ts")
    given = [("ada", 1.0, 1_000), ("bob", 3.0, 1_000), ("ada", 2.0, 2_000)]
    assert run_bolt(bolt, given, "user string, amount double, ts long").rows == rows


def test_a_key_and_an_aggregate_of_one_name() -> None:
    builder = a_builder()
    bolt = AggregateBolt(user=count()).with_window(Session("5s")).with_key("user").with_timestamp_field("ts")
    builder.set_bolt("more", bolt).fields_grouping("orders")
    assert "two columns 'user'" in the_problem(builder)


@pytest.mark.feature("ST-9")
def test_a_timestamp_field_that_is_missing() -> None:
    builder = a_builder()
    builder.set_bolt("more", tumbling().with_timestamp_field("time")).global_grouping("orders")
    assert "no timestamp field 'time'" in the_problem(builder)


@pytest.mark.feature("ST-9")
def test_a_timestamp_field_of_a_wrong_type() -> None:
    builder = a_builder()
    builder.set_bolt("more", tumbling().with_timestamp_field("amount")).global_grouping("orders")
    assert "'amount' of 'orders' is double" in the_problem(builder)


@pytest.mark.feature("ST-24")
def test_a_window_without_a_length() -> None:
    builder = a_builder()
    builder.set_bolt("more", Total().with_timestamp_field("ts")).global_grouping("orders")
    assert "no length" in the_problem(builder)


@pytest.mark.feature("ST-22")
@pytest.mark.parametrize(
    ("bolt", "fine"),
    [
        (Total().with_window("20s", "10s"), True),
        (Total().with_window("21s", "10s"), False),
        (Total().with_tumbling_window("15s"), True),
        (Total().with_tumbling_window("16s"), False),
        (Total().with_window("30s", 100), True),
        (Total().with_window(100, "31s"), False),
        (Total().with_window(Session("10s", max_duration="30s")), True),
        (Total().with_window(Session("10s", max_duration="31s")), False),
        (Total().with_window(Session("31s")), False),
        (Total().with_window(SlidingLog("31s")), False),
        (Total().with_window(Hopping(seconds(20), seconds(10)), Hopping(seconds(20), seconds(11))), False),
        (Total().with_window(Calendar("hour", "UTC")).with_alignment(bounds="(start, end]"), False),
    ],
)
def test_length_plus_slide_fit_into_the_message_timeout(bolt: WindowedBolt, fine: bool) -> None:
    builder = TopologyBuilder("orders", message_timeout="30s")
    builder.set_spout("orders", spouts.memory(ORDERS))
    builder.set_bolt("total", bolt.with_timestamp_field("ts")).global_grouping("orders")
    if fine:
        builder.build()
    else:
        problem = the_problem(builder)
        assert "message timeout 30s" in problem
        assert "replayed" not in problem  # which nothing is here, however long a window


@pytest.mark.feature("ST-22", "ST-23", "ST-24")
def test_by_default_windows_may_be_as_long_as_they_like() -> None:
    for bolt in (Total().with_window("25d"), Total().with_tumbling_window("365d"), Total().with_window(10_000_000)):
        builder = a_builder()
        builder.set_bolt("long", bolt.with_timestamp_field("ts")).global_grouping("orders")
        assert str(builder.build().windowed["long"].bolt.settings.length) in ("25d", "365d", "10000000 events")


@pytest.mark.feature("ST-23")
def test_what_may_be_pending_is_a_number_of_events() -> None:
    for wrong in (0, -1, "ten", True):
        with pytest.raises(ConfigError, match="positive whole number"):
            TopologyBuilder("x", max_spout_pending=wrong)  # type: ignore[arg-type]


@pytest.mark.feature("ST-23")
@pytest.mark.parametrize(("length", "slide", "fine"), [(6, 4, True), (6, 5, False), (9, None, True), (10, None, False)])
def test_length_plus_slide_fit_into_max_spout_pending(length: int, slide: int | None, fine: bool) -> None:
    builder = TopologyBuilder("orders", max_spout_pending=10)
    builder.set_spout("orders", spouts.memory(ORDERS))
    builder.set_bolt("total", Total().with_window(length, slide)).global_grouping("orders")
    if fine:
        builder.build()
    else:
        assert "max_spout_pending 10" in the_problem(builder)


def test_names_that_are_taken_twice() -> None:
    builder = a_builder()
    builder.set_sink("orders", sinks.memory()).from_("orders")
    assert "'orders' is set 2 times" in the_problem(builder)


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-a"])
def test_names_that_are_none(name: Any) -> None:
    builder = a_builder()
    builder.set_sink(name, sinks.memory()).from_("orders")
    assert f"{name!r} cannot be a name" in the_problem(builder)


@pytest.mark.parametrize("name", [5, None])
def test_names_that_are_no_texts_are_refused_where_they_are_given(name: Any) -> None:
    with pytest.raises(ConfigError, match=rf"set_sink\(name={name}\).*a text"):
        a_builder().set_sink(name, sinks.memory())


@pytest.mark.feature("ST-18")
@pytest.mark.parametrize("configured", [Total().with_late_tuple_stream("late"), Total().with_lag("5s")])
def test_lateness_without_event_times(configured: WindowedBolt) -> None:
    builder = a_builder()
    builder.set_bolt("more", configured.with_tumbling_window("10s")).global_grouping("orders")
    assert "without event times" in the_problem(builder)


def test_streams_with_event_times_and_streams_without() -> None:
    builder = a_builder()
    builder.set_bolt("more", tumbling()).global_grouping("total").global_grouping("orders")
    assert "streams with event times, and orders without" in the_problem(builder)


def test_columns_of_one_name_that_differ_in_type() -> None:
    builder = a_builder()
    builder.set_spout("others", spouts.memory("user long, ts timestamp"))
    builder.set_bolt("more", timed()).global_grouping("orders").global_grouping("others")
    assert "differ in type" in the_problem(builder)


def test_columns_that_are_windbolts_own() -> None:
    builder = a_builder()
    builder.set_spout("others", spouts.memory("_ts timestamp, ts timestamp"))
    builder.set_bolt("more", timed()).global_grouping("others")
    assert "['_ts']" in the_problem(builder)


def test_a_stream_that_is_read_twice() -> None:
    builder = a_builder()
    builder.set_bolt("more", timed()).global_grouping("orders").fields_grouping("orders", "user")
    assert "reads 'orders' twice" in the_problem(builder)
    builder = a_builder()
    builder.set_sink("more", sinks.memory()).from_("orders").from_("orders")
    assert "takes 'orders' twice" in the_problem(builder)


def test_bolts_and_sinks_that_read_nothing() -> None:
    builder = a_builder()
    builder.set_bolt("more", timed())
    builder.set_sink("more_out", sinks.memory())
    first, second = problems(builder)
    assert "bolt 'more' reads nothing" in first
    assert "sink 'more_out' reads no stream" in second


def test_a_sink_of_streams_whose_columns_differ() -> None:
    builder = a_builder()
    builder.set_sink("both", sinks.memory()).from_("orders").from_("total")
    assert "sink 'both' takes orders, total" in the_problem(builder)


def test_a_file_sink_where_a_file_is(tmp_path: Any) -> None:
    (tmp_path / "taken").write_text("")
    builder = a_builder()
    builder.set_sink("more", sinks.files(tmp_path / "taken")).from_("orders")
    assert "is a file" in the_problem(builder)


def test_two_file_sinks_of_one_folder(tmp_path: Any) -> None:
    builder = a_builder()
    builder.set_sink("one", sinks.files(tmp_path / "out")).from_("orders")
    builder.set_sink("two", sinks.files(f"{tmp_path}/./out/")).from_("total")
    assert "sinks 'one', 'two' write to" in the_problem(builder)


@pytest.mark.parametrize(
    ("one", "two"),
    [("s3://shop/out", "s3a://shop/out/"), ("/out", "file:/out/"), ("/out", "file:///out"), ("dbfs:/out", "/dbfs/out")],
)
def test_two_file_sinks_of_one_folder_that_is_written_in_two_ways(one: str, two: str) -> None:
    builder = a_builder()
    builder.set_sink("one", sinks.files(one)).from_("orders")
    builder.set_sink("two", sinks.files(two)).from_("total")
    assert "sinks 'one', 'two' write to" in the_problem(builder)


@pytest.mark.parametrize(
    ("read", "written", "format"),
    [
        ("{}", "{}", "jsonl"),
        ("{}/*.jsonl", "{}/", "jsonl"),
        ("{}/**/*.parquet", "{}/out", "parquet"),
        ("{}", "{}/day=1", "jsonl"),
        (["other", "{}/b*"], "{}", "jsonl"),
        ("s3a://shop/in/*", "s3://shop/in?region=x", "jsonl"),
        ("s3://shop/in", "s3://shop/in/?region=x", "jsonl"),
        ("{}/_*/*.jsonl", "{}/_out", "jsonl"),
    ],
)
def test_a_spout_that_would_read_the_files_of_a_sink(read: Any, written: str, format: Any, tmp_path: Any) -> None:
    paths = [each.format(tmp_path) for each in ([read] if isinstance(read, str) else read)]
    builder = a_builder()
    builder.set_spout("again", spouts.files(paths, ORDERS, format=format))
    builder.set_bolt("also", timed()).global_grouping("again")
    builder.set_sink("more", sinks.files(written.format(tmp_path), format)).from_("total")
    assert "spout 'again' reads what sink 'more' writes" in the_problem(builder)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("{}", "{}/out"),
        ("{}/*.jsonl", "{}"),
        ("{}/in", "{}/in2"),
        ("{}/*/*.parquet", "{}/_out"),
        ("{}/**", "{}/.out"),
        ("{}/**/*.parquet", "{}/in/out.tmp"),
    ],
)
def test_results_beside_the_input_are_not_read(read: str, written: str, tmp_path: Any) -> None:
    builder = a_builder()
    builder.set_spout("others", spouts.files(read.format(tmp_path), ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("others")
    builder.set_sink("more", sinks.files(written.format(tmp_path), "parquet")).from_("total")
    assert "more" in builder.build().sinks


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("link/*.jsonl", "out"),
        ("{}/in/*/*.jsonl", "out"),
        ("{}/in/**/link/*.jsonl", "out"),
        ("{}/in", "out"),
        ("out/*.jsonl", "link"),
    ],
)
def test_a_spout_that_would_read_the_files_of_a_sink_by_way_of_a_link(read: str, written: str, tmp_path: Any) -> None:
    for folder in ("out", "in"):
        (tmp_path / folder).mkdir()
    for link in ("link", "in/link", "in/day=1"):
        (tmp_path / link).symlink_to(tmp_path / "out")
    builder = a_builder()
    path = read.format(tmp_path) if read.startswith("{}") else f"{tmp_path}/{read}"
    builder.set_spout("again", spouts.files(path, ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("again")
    builder.set_sink("more", sinks.files(tmp_path / written, "jsonl")).from_("total")
    assert "spout 'again' reads what sink 'more' writes" in the_problem(builder)


HADOOP = """<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://shop</value></property>
  <property><name>dfs.namenode.rpc-address.Shop.one</name><value>nn1:8020</value></property>
</configuration>"""


def hdfs_configured(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "core-site.xml").write_text(HADOOP, "utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("s3://key:secret@shop/in", "s3a://shop/in/"),
        ("s3://shop/in/*", "s3://key:secret@shop/in?region=x"),
        ("s3://shop/in", "s3://shop/in?endpoint_override=s3.eu-north-1.amazonaws.com"),
        ("s3://shop/in?endpoint_override=store:9000&scheme=http", "s3://shop/in?endpoint_override=http://STORE:9000/"),
        ("abfs://c@shop.dfs.core.windows.net/in", "wasbs://c:key@shop.blob.core.windows.net/in"),
        ("hdfs:///in/*", "hdfs://shop/in"),
        ("s3://shop/in?endpoint_override=store:80&scheme=http", "s3://shop/in?endpoint_override=http://store"),
        ("s3://shop/in?endpoint_override=https://store:443", "s3://shop/in?endpoint_override=store"),
        ("hdfs://nn1/in/*", "hdfs:///in"),
        ("hdfs://nn1/in/*", "hdfs://Shop/in"),
        ("hdfs://NN1:8020/in", "hdfs://nn1/in"),
    ],
)
def test_a_place_out_there_that_is_written_in_two_ways(
    read: str, written: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs_configured(tmp_path, monkeypatch)
    builder = a_builder()
    builder.set_spout("again", spouts.files(read, ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("again")
    builder.set_sink("more", sinks.files(written, "jsonl")).from_("total")
    said = the_problem(builder)
    assert "spout 'again' reads what sink 'more' writes" in said
    assert "secret" not in said


def test_any_hdfs_may_be_the_default_one_where_no_configuration_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    builder = a_builder()
    builder.set_spout("again", spouts.files("hdfs:///in", ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("again")
    builder.set_sink("more", sinks.files("hdfs://nn/in", "jsonl")).from_("total")
    assert "spout 'again' reads what sink 'more' writes" in the_problem(builder)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("s3://shop/in?endpoint_override=one:9000", "s3://shop/in?endpoint_override=two:9000"),
        ("s3://shop/in", "s3://shop/in?endpoint_override=two:9000"),
        ("s3://shop/in", "gs://shop/in"),
        ("s3://shop/in?endpoint_override=storage.googleapis.com", "s3://shop/in"),
        ("s3://b[ab]/in", "s3://k:s[x@other/in"),
        ("hdfs:///in", "hdfs://nn2/in"),
        ("hdfs://nn1/in", "hdfs://nn1:9000/in"),
        ("abfs://c@shop.dfs.core.windows.net/in", "abfs://c@other.dfs.core.windows.net/in"),
    ],
)
def test_places_that_only_look_alike_are_two(
    read: str, written: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    hdfs_configured(tmp_path, monkeypatch)
    builder = a_builder()
    builder.set_spout("others", spouts.files(read, ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("others")
    builder.set_sink("more", sinks.files(written, "jsonl")).from_("total")
    assert "more" in builder.build().sinks


def test_a_link_that_the_pattern_does_not_match_is_not_read(tmp_path: Any) -> None:
    for folder in ("out", "in"):
        (tmp_path / folder).mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    builder = a_builder()
    builder.set_spout("others", spouts.files(f"{tmp_path}/in/*.jsonl", ORDERS, format="jsonl"))
    builder.set_bolt("also", timed()).global_grouping("others")
    builder.set_sink("more", sinks.files(tmp_path / "out", "jsonl")).from_("total")
    assert "more" in builder.build().sinks


def test_a_folder_as_spark_writes_it_is_the_folder_itself() -> None:
    assert sinks.files("file:/out/of it").path == "/out/of it"
    assert sinks.files("s3://shop/out/").path == "s3://shop/out/"


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_path_is_not_the_current_folder(blank: str) -> None:
    with pytest.raises(ConfigError, match="names no folder"):
        sinks.files(blank)
    with pytest.raises(ConfigError, match="of which none is blank"):
        spouts.files(["in/", blank])


@pytest.mark.parametrize("sink", [sinks.MemorySink, sinks.memory, "out/", None, sinks.FileSink])
def test_a_sink_that_is_none(sink: Any) -> None:
    builder = a_builder()
    builder.set_sink("more", sink).from_("orders")
    assert "that is not a sink" in the_problem(builder)


@pytest.mark.parametrize("spout", [spouts.MemorySpout, spouts.memory, "in/*.parquet", None])
def test_a_spout_that_is_none(spout: Any) -> None:
    builder = a_builder()
    builder.set_spout("more", spout)
    builder.set_bolt("reader", timed()).global_grouping("more")
    assert "that is not a spout" in the_problem(builder)


def test_a_spout_whose_schema_cannot_be_read() -> None:
    builder = a_builder()
    builder.set_spout("more", spouts.memory("user strin"))
    assert "'strin' is not a type" in the_problem(builder)


def test_a_class_in_the_place_of_a_bolt() -> None:
    with pytest.raises(ConfigError, match=r"a StatefulBolt or a WindowedBolt. call the class: Total"):
        a_builder().set_bolt("more", Total)  # type: ignore[arg-type]


@pytest.mark.parametrize("bolt", [print, None, "total", sinks.memory()])
def test_a_bolt_that_is_none(bolt: Any) -> None:
    with pytest.raises(ConfigError, match="give a Bolt, a BatchBolt, a StatefulBolt or a WindowedBolt"):
        a_builder().set_bolt("more", bolt)


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_parallelism_that_is_none(parallelism: Any) -> None:
    builder = a_builder()
    builder.set_bolt("more", timed(), parallelism).global_grouping("orders")
    assert f"parallelism {parallelism!r}" in the_problem(builder)


@pytest.mark.parametrize("parallelism", [1.5, "2", True])
def test_a_parallelism_that_is_no_whole_number_is_refused_where_it_is_given(parallelism: Any) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        a_builder().set_bolt("more", timed(), parallelism)


def test_outputs_that_cannot_be_read() -> None:
    class Wrong(Pass):
        outputs: ClassVar[Any] = "user strin"

    class Reserved(Pass):
        outputs: ClassVar[Any] = {"errors": "a int"}

    builder = a_builder()
    builder.set_bolt("wrong", Wrong()).shuffle_grouping("orders")
    builder.set_bolt("reserved", Reserved()).shuffle_grouping("orders")
    first, second = problems(builder)
    assert "'strin' is not a type" in first
    assert "declares a stream 'errors'" in second


def test_a_late_stream_that_is_declared_already() -> None:
    class Two(Total):
        outputs: ClassVar[Any] = {"late": "a int"}

    builder = a_builder()
    two = Two().with_tumbling_window(3).with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("more", two).global_grouping("orders")
    assert "two streams 'late'" in the_problem(builder)


def test_state_of_a_type_that_cannot_be_kept() -> None:
    class Keeps(StatefulWindowedBolt):
        state_types: ClassVar[Any] = {"seen": set}

        def execute(self, window: TupleWindow) -> None:
            return None

    builder = a_builder()
    builder.set_bolt("more", Keeps().with_tumbling_window(3)).global_grouping("orders")
    assert "state 'seen' is declared set" in the_problem(builder)
    assert "never pickled" in the_problem(builder)


@pytest.mark.parametrize(
    ("bolt", "complaint"),
    [
        (Total().with_window("10s").with_policies(trigger=WatermarkCountTriggerPolicy(Count(1))), "no event time"),
        (
            Total().with_window("10s").with_timestamp_field("ts").with_policies(trigger=CountTriggerPolicy(Count(1))),
            "follows the clock",
        ),
        (timed().with_policies(eviction=Total), "is not an eviction policy"),
    ],
)
def test_policies_that_do_not_fit(bolt: WindowedBolt, complaint: str) -> None:
    builder = a_builder()
    builder.set_bolt("more", bolt).global_grouping("orders")
    assert complaint in the_problem(builder)


def test_all_mistakes_are_reported_together_and_their_followers_are_quiet() -> None:
    builder = a_builder()
    builder.set_bolt("one", Total().with_timestamp_field("ts")).global_grouping("orders")
    builder.set_bolt("two", timed(), 0).global_grouping("nobody")
    builder.set_bolt("three", tumbling()).global_grouping("one")  # faultless, except for what it reads
    builder.set_sink("late", sinks.memory()).from_("two", "late")
    builder.set_sink("x y", sinks.memory()).from_("three")
    with pytest.raises(TopologyError) as found:
        builder.build()
    text = str(found.value)
    assert text.startswith("topology 'orders' cannot be built, 4 problems:\n  1. ")
    assert len(text.splitlines()) == 5
    assert isinstance(found.value, ValueError)
    for said in ("'x y' cannot be a name", "bolt 'one'", "parallelism 0", "reads 'nobody'"):
        assert said in text


def test_one_mistake_is_one_problem() -> None:
    with pytest.raises(TopologyError, match="1 problem:"):
        TopologyBuilder("empty").build()


@pytest.mark.feature("ST-9", "ST-24")
@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: TopologyBuilder("x", on_invalid="ignore"), "'divert' or 'stop'"),  # type: ignore[arg-type]
        (lambda: TopologyBuilder("x", message_timeout=WRONG), "no unit"),
        (lambda: timed().with_timestamp_field("other"), "one source of time"),
        (lambda: timed().with_time(processing=True), "one source of time"),
        (lambda: timed().with_timestamp_extractor(len), "one source of time"),
        (lambda: Total().with_timestamp_extractor(NAME), "cannot be called"),
        (lambda: Total().with_alignment(bounds="[a, b]"), "'\\(start, end\\]'"),  # type: ignore[arg-type]
        (lambda: Total().with_late_tuple_stream(""), "not the name of a stream"),
        (lambda: Total().with_window(0), "positive whole number"),
        (lambda: Total().with_window(-1), "positive whole number"),
        (lambda: Total().with_window("0s"), "zero"),
        (lambda: Total().with_window(5, "0s"), "zero"),
        (lambda: Total().with_window(HALF), "no unit"),
        (lambda: Total().with_lag(WRONG), "no unit"),
        (lambda: sinks.foreach_batch(print, frame="polars"), "the kind of table"),  # type: ignore[arg-type]
        (lambda: spouts.files("in/"), "format"),
        (lambda: spouts.files("in/*.csv", files_per_batch=0), "at least that"),
        (lambda: spouts.stream(lambda spark: spark), "without a schema"),
    ],
)
def test_settings_that_cannot_be_are_refused_where_they_are_given(build: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build()


def test_configuring_gives_a_copy() -> None:
    first = Total().with_window(seconds(1))
    second = first.with_lag("1s")
    assert first.settings.lag is None
    assert second.settings.length == first.settings.length
    assert WindowedBolt.settings.length is None


def test_two_sinks_on_one_folder_under_two_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", tmp_path / "link")
    builder = TopologyBuilder("twice")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    for name in ("out", "link"):
        builder.set_sink(name, sinks.files(tmp_path / name)).from_("events")
    with pytest.raises(TopologyError, match="write to"):
        builder.build()


# ---- types of the fields by which inputs are grouped

TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "decimal(5,2)": pa.decimal128(5, 2), "decimal(10,4)": pa.decimal128(10, 4), "decimal(5,0)": pa.decimal128(5, 0),
    "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(), "boolean": pa.bool_(), "binary": pa.binary(),
}  # fmt: skip
FITTING = [{"int", "long", "boolean"}, {"float", "double"}, {"string", "binary"}]


def reading_two(one: str, other: str, tasks: int = 3) -> TopologyBuilder:
    builder = TopologyBuilder("two")
    builder.set_spout("left", spouts.memory(f"a {one}, ts timestamp"))
    builder.set_spout("right", spouts.memory(f"b {other}, ts timestamp"))
    builder.set_bolt("t", timed(), tasks).fields_grouping("left", "a").fields_grouping("right", "b")
    builder.set_sink("out", sinks.memory()).from_("t")
    return builder


def test_equal_values_of_the_fields_of_two_inputs_come_to_one_task_or_are_refused() -> None:
    for one, other in itertools.product(TYPES, TYPES):
        fits = one == other or any({one, other} <= kinds for kinds in FITTING)
        if fits:
            reading_two(one, other).build()
            continue
        reading_two(one, other, tasks=1).build()
        with pytest.raises(TopologyError) as caught:
            reading_two(one, other).build()
        assert "events with equal values would go to several tasks" in str(caught.value)
        assert "cast one in a bolt before it" in str(caught.value)


def test_what_is_not_refused_meets() -> None:
    """Also a column that is encoded as a dictionary, as files may have it."""
    values: list[Any] = [0, 1, True, 2.5, -0.0, float("nan"), "x", b"x", datetime(2024, 1, 1, tzinfo=UTC), None]
    types = [*TYPES.values(), pa.int8(), pa.uint64(), pa.large_string(), pa.string_view(), pa.timestamp("ms", "UTC")]
    types += [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())]
    tried = 0
    for one, other, value in itertools.product(types, types, values):
        if hash_class(one) != hash_class(other) or (pa.types.is_timestamp(one) and isinstance(value, int | float)):
            continue
        try:
            left, right = (pa.table({"k": pa.array([value], kind)}) for kind in (one, other))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
            continue
        tried += 1
        assert hash_rows(left, ["k"]).tolist() == hash_rows(right, ["k"]).tolist(), (one, other, value)
    assert tried > 100


@pytest.mark.parametrize("more", [{"per_key": True}, {"idle_timeout": "5s"}, {"allowed_lateness": "0s"}])
def test_edges_beside_rules_of_systems_that_have_none(more: dict[str, Any]) -> None:
    builder = TopologyBuilder("edges")
    builder.set_spout("orders", spouts.memory("user string, ts long, until long, shape string", []))
    bolt = timed().with_key("user").with_lifetime("until", shape_field="shape")
    bolt = bolt.with_watermark(per_key=True) if "per_key" in more else bolt.with_time(presets.atlas(**more))
    builder.set_bolt("edges", bolt).fields_grouping("orders", "user")
    assert "has edges, and " in problems(builder)[0]


def test_a_bolt_is_taken_as_it_is_when_it_is_added() -> None:
    """One that is changed may be added again, and what is changed after that does not count."""

    class Times(Bolt):
        outputs = "n long"

        def __init__(self, factor: int) -> None:
            self.factor = factor

        def execute(self, tuple: Any) -> Any:
            return (tuple["n"] * self.factor,)

    builder, out, bolt = TopologyBuilder("times"), sinks.memory(), Times(1)
    builder.set_spout("numbers", spouts.memory("n long", [(1,)]))
    for factor in (2, 3):
        bolt.factor = factor
        builder.set_bolt(f"by_{factor}", bolt).global_grouping("numbers")
    builder.set_sink("out", out).from_("by_2").from_("by_3")
    topology = builder.build()
    bolt.factor = 5
    run_local(topology)
    assert [row["n"] for row in out.rows] == [2, 3]


def test_a_bolt_that_is_added_keeps_its_lists_and_its_own_methods() -> None:
    class Counts(Bolt):
        outputs = "key string, n long"

        def __init__(self) -> None:
            self.keys = ["a"]
            self.by_key = {"a": self.on_a}

        def prepare(self, context: Any) -> None:
            self.count = 0

        def execute(self, tuple: Any) -> Any:
            return [self.by_key["a"](key) for key in self.keys]

        def on_a(self, key: str) -> Any:
            self.count += 1
            return key, self.count

    builder, out, bolt = TopologyBuilder("counts"), sinks.memory(), Counts()
    builder.set_spout("numbers", spouts.memory("n long", [(1,), (2,)]))
    builder.set_bolt("counts", bolt).global_grouping("numbers")
    bolt.keys.append("b")
    builder.set_sink("out", out).from_("counts")
    run_local(builder.build())
    assert [tuple(row.values()) for row in out.rows] == [("a", 1), ("a", 2)]


def test_a_sink_in_memory_under_two_names_is_refused() -> None:
    """The rows of a batch of the one would replace those of the other."""
    builder, out = TopologyBuilder("numbers"), sinks.memory()
    builder.set_spout("one", spouts.memory("n long", [(1,)]))
    builder.set_spout("two", spouts.memory("n long", [(2,)]))
    builder.set_sink("first", out).from_("one")
    builder.set_sink("second", out).from_("two")
    with pytest.raises(TopologyError, match=r"sinks 'first', 'second' are the same sinks.memory\(\)"):
        builder.build()
