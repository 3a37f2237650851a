"""Kafka without Kafka: what is refused before a run, and how records become rows and rows records."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from topologies.checkpoints.spark_checkpoint import Partitions, SourceLog
from topologies.engine.kafka_records import OffsetRange, Records, outgoing
from topologies.graph.describing import sink_in_words, spout_in_words
from topologies.io.formats.json import parse_values
from topologies.io.topics.declared import METADATA
from windbolt import Bolt, TopologyBuilder, sinks, spouts
from windowing.errors import CheckpointError, ConfigError, DataError, EnvironmentMissing, TopologyError
from windowing.schema import format_schema, parse_schema

SCHEMA = "user string, amount double"
AT = "localhost:9092"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"servers": "localhost"}, "'localhost' is not a Kafka server"),
        ({"servers": "a:1,:2"}, "':2' is not a Kafka server"),
        ({"topics": None}, "without topics"),
        ({"pattern": "a.*"}, "both topics and a pattern"),
        ({"topics": "a,b"}, "'a,b' is not a topic"),
        ({"starting": "yesterday"}, "starting='yesterday'"),
        ({"starting": {"other": {0: 1}}}, "names the topic 'other'"),
        ({"starting": {"orders": {0: -7}}}, "starting="),
        ({"records_per_batch": 0}, "records_per_batch=0"),
        ({"key": "json"}, "key='json'"),
        ({"metadata": True}, "with metadata and without a schema"),
        ({"schema": SCHEMA, "value": "text"}, "with a schema, and with value="),
        ({"schema": SCHEMA, "metadata": ["user"]}, "'kafka_user' is not metadata"),
        ({"options": {"subscribe": "a"}}, "option 'subscribe' is an argument of windbolt's own"),
        ({"options": {"auto.offset.reset": "latest"}}, r"'auto.offset.reset' .* use starting=\.\.\."),
        ({"options": {"kafka.auto.offset.reset": "latest"}}, r"'kafka.auto.offset.reset' .* use starting=\.\.\."),
    ],
)
def test_what_a_spout_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        spouts.kafka(**{"servers": AT, "topics": "orders", **given})


def test_the_columns_of_a_spout() -> None:
    raw = spouts.kafka([AT, "b:1"], ["orders", "more"], key="text").outputs()["default"]
    assert format_schema(raw) == (
        "topic string, partition int, offset long, timestamp timestamp, key string, value binary, "
        "headers array<struct<key: string, value: binary>>"
    )
    parsed = spouts.kafka(AT, "orders", SCHEMA, metadata=["partition", "kafka_timestamp"]).outputs()["default"]
    assert format_schema(parsed) == f"{SCHEMA}, kafka_partition int, kafka_timestamp timestamp"
    assert spouts.kafka(AT, "orders", SCHEMA, metadata=True).metadata == tuple(METADATA)[:-1]
    with pytest.raises(ConfigError, match="column 'kafka_key' is declared and also requested as metadata"):
        spouts.kafka(AT, "orders", "kafka_key string", metadata=True).outputs()


def test_passwords_are_not_shown() -> None:
    secret = {"kafka.sasl.jaas.config": "password=geheim"}
    assert "geheim" not in repr(spouts.kafka(AT, "orders", options=secret)) + repr(sinks.kafka(AT, "a", options=secret))


def sunk(columns: str, topic: str | None = "out") -> TopologyBuilder:
    builder = TopologyBuilder("sunk")
    builder.set_spout("in", spouts.memory(columns))
    builder.set_sink("out", sinks.kafka(AT, topic)).from_("in")
    return builder


class Totals(Bolt):
    outputs = "value binary, topic string"

    def execute(self, tuple: Any) -> Any:
        yield b"{}", "totals"


def looped(spout: dict[str, Any], servers: str = AT, topic: str | None = "totals") -> TopologyBuilder:
    builder = TopologyBuilder("looped")
    builder.set_spout("in", spouts.kafka(**{"servers": AT, **spout}))
    builder.set_bolt("made", Totals()).shuffle_grouping("in")
    builder.set_sink("out", sinks.kafka(servers, topic, topics=["totals"])).from_("made")
    return builder


@pytest.mark.parametrize(
    ("spout", "servers"),
    [
        ({"topics": "totals"}, AT),
        ({"topics": ["orders", "totals"]}, "127.0.0.1:9092"),
        ({"pattern": "to.*"}, f"other:9092,{AT}"),
        ({"pattern": ".*", "servers": f"HOST:1,{AT}"}, "host:1"),
    ],
)
def test_a_topic_that_the_topology_itself_reads_is_refused(spout: dict[str, Any], servers: str) -> None:
    with pytest.raises(TopologyError, match=r"spout 'in' reads what sink 'out' writes.*topic 'totals'.*without end"):
        looped(spout, servers).build()


@pytest.mark.parametrize(
    ("spout", "servers", "topic"),
    [
        ({"topics": "orders"}, AT, "totals"),
        ({"pattern": "total"}, AT, "totals"),
        ({"topics": "totals"}, "other:9092", "totals"),
        ({"topics": "totals"}, AT, None),  # rows name their topics: which of them come back is their affair
    ],
)
def test_topics_that_are_no_loop(spout: dict[str, Any], servers: str, topic: str | None) -> None:
    assert "out" in looped(spout, servers, topic).build().sinks


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ("key string", "out", "there is no column 'value'"),
        ("value double", "out", "'value' is double, and should be string or binary"),
        ("value string, user string", "out", "'user' has no place in a record"),
        ("value string, headers array<string>", "out", "'headers' is array<string>"),
        ("value string, partition long", "out", "'partition' is long, and should be int"),
        ("value string", None, "its records have no topic"),
    ],
)
def test_rows_that_are_no_records_are_found_by_build(columns: str, topic: str | None, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        sunk(columns, topic).build()


def test_rows_that_are_records_are_taken() -> None:
    for columns in ("value binary", "value string, key binary, headers map<string, binary>, partition int"):
        sunk(columns).build()
    sunk("value string, topic string", None).build()


def test_both_ends_in_words() -> None:
    assert spout_in_words(spouts.kafka(AT, ["a", "b"], records_per_batch=5)) == (
        f"records of Kafka topic a, b at {AT}, at most 5 records a batch"
    )
    assert spout_in_words(spouts.kafka(AT, schema=SCHEMA, pattern="a.*")) == f"JSON of Kafka topics like a.* at {AT}"
    assert sink_in_words(sinks.kafka(AT)) == f"Kafka topics by the row at {AT}"


def test_a_value_may_have_lines_and_is_one_object() -> None:
    good = [b'{"user":\n"ann",\r\n"amount": 1}\n', b'{"user": "bob", "amount": 2}']
    bad = [b"", b" \n", None, b'{"user": "a\nb"}', b'{"user": "ann"}\n{"user": "bob"}', b"\xef\xbb\xbf{}", b"[]"]
    for values in (good + bad, good * 40 + bad):  # by Python, and by Arrow
        rows, places, wrong = parse_values(pa.array(values, pa.binary()), parse_schema(SCHEMA))
        count = len(values) - len(bad)
        assert rows.to_pylist() == [{"user": "ann", "amount": 1.0}, {"user": "bob", "amount": 2.0}] * (count // 2)
        assert places.tolist() == list(range(count))
        assert wrong.rows.column("row").to_pylist() == list(range(count, len(values)))
        reasons = wrong.rows.column("reason").to_pylist()
        assert reasons[:3] == ["the value is blank", "the value is blank", "the value is null (a tombstone)"]
        assert all("not valid JSON" in reason or "not a JSON object" in reason for reason in reasons[3:])


def test_bad_keys_and_bad_values_have_the_offsets_of_their_records() -> None:
    builder = TopologyBuilder("in")
    builder.set_spout("in", spouts.kafka(AT, "orders", SCHEMA, metadata=["key"]))
    builder.set_sink("out", sinks.memory()).from_("in")
    part = pa.table(
        [
            ["orders"] * 5,
            [3] * 5,
            [10, 12, 13, 17, 20],
            [5, 4, 7, 6, 8],
            [b"a", b"\xff", b"c", b"d", None],
            [b"{", b"{}", b"{}", b"", b"{}"],
        ],
        schema=parse_schema("topic string, partition int, offset long, timestamp timestamp, key binary, value binary"),
    )
    (found,) = Records("in", [part]).read(builder.build())
    assert found.source == "topic orders, partition 3"
    assert found.positions.tolist() == [13, 20]
    assert found.table.column("kafka_key").to_pylist() == ["c", None]
    assert found.bad is not None
    assert found.bad.column("row").to_pylist() == [10, 12, 17]
    assert found.merge_keys is not None
    assert found.bad_merge_keys is not None
    assert (found.merge_keys.tolist(), found.bad_merge_keys.tolist()) == ([7, 8], [5, 4, 6])


def test_records_have_their_ids_behind_their_own_headers() -> None:
    pairs = pa.map_(pa.string(), pa.string())
    table = pa.table({"value": ["a", None], "headers": pa.array([[("x", "1"), ("y", None)], None], pairs)})
    first, second = outgoing(table.slice(0), "t", "shop/out/revenue.0/4", 7).to_pylist()
    assert first["headers"] == [
        {"key": "x", "value": b"1"}, {"key": "y", "value": None},
        {"key": "windbolt-id", "value": b"shop/out/revenue.0/4/7"},
    ]  # fmt: skip
    assert second == {
        "topic": "t", "partition": None, "key": None, "value": None,
        "headers": [{"key": "windbolt-id", "value": b"shop/out/revenue.0/4/8"}],
    }  # fmt: skip
    with pytest.raises(DataError, match="a row for Kafka has no topic"):
        outgoing(pa.table({"value": ["a"], "topic": pa.nulls(1, pa.string())}), None, "a", 0)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("published", [True, None])
def test_the_connector_comes_beside_the_user_s_own_packages(
    published: bool | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from topologies.spark import classic_session as session
    from topologies.spark.classic_session import coordinates, with_connector

    monkeypatch.setattr(session, "is_published", lambda paths: published)
    monkeypatch.setattr(session, "are_cached", lambda pinned: False)
    packages = "spark.jars.packages"
    assert with_connector({}) == {packages: coordinates()}
    assert with_connector({packages: "a:b:1"}) == {packages: f"a:b:1,{coordinates()}"}
    assert with_connector({packages: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"}) == {}
    assert with_connector({"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.1.0.jar"}) == {}
    (tmp_path / "spark-defaults.conf").write_text("# mine\nspark.jars.packages  c:d:2\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert with_connector({}) == {packages: f"c:d:2,{coordinates()}"}


@pytest.mark.usefixtures("no_settings")
def test_where_there_is_no_connector_of_this_version_one_that_works_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from topologies.spark import classic_session as session
    from topologies.spark.classic_session import coordinates, with_connector

    def gone(pinned: Path) -> list[str]:
        raise OSError("there is no network")

    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    monkeypatch.setattr(session, "is_published", lambda paths: False)
    monkeypatch.setattr(session, "jars", lambda pinned: ["/cache/one.jar", "/cache/two.jar"])
    assert with_connector({"spark.jars": "/mine.jar"}) == {"spark.jars": "/mine.jar,/cache/one.jar,/cache/two.jar"}
    assert "Maven Central has no Kafka connector for Spark 4.3.0; that of 4.2.0 is used" in capsys.readouterr().err
    monkeypatch.setattr(session, "is_published", lambda paths: None)
    monkeypatch.setattr(session, "are_cached", lambda pinned: True)
    assert with_connector({}) == {"spark.jars": "/cache/one.jar,/cache/two.jar"}, "a later start without a network"
    monkeypatch.setattr(session, "is_published", lambda paths: False)
    elsewhere = {"spark.jars.repositories": "https://mirror"}
    assert with_connector(elsewhere) == {"spark.jars.packages": coordinates()}, "the user's mirror may have it"
    monkeypatch.setattr(session, "jars", gone)
    with pytest.raises(EnvironmentMissing, match=r"there is no network.*spark\.jars\.repositories"):
        with_connector({})
    monkeypatch.setattr("pyspark.__version__", "4.9.0")
    assert with_connector({}) == {"spark.jars.packages": coordinates()}, "it is not known whether the older one works"


@pytest.mark.usefixtures("no_settings")
def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from topologies.spark import classic_session as session
    from topologies.spark.classic_session import with_connector

    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    monkeypatch.setattr(session, "is_published", lambda paths: False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(EnvironmentMissing, match=r"no home directory.*Not a directory.*set HOME.*spark\.jars\.ivy"):
        with_connector({})
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(EnvironmentMissing, match=r"no home directory.*set HOME"):
        with_connector({})
    monkeypatch.setattr(session, "is_published", lambda paths: None)
    assert set(with_connector({})) == {"spark.jars.packages"}, "nothing is cached, so Spark is to fetch"


def nobody() -> Path:
    """As Path.home() does for a user that the system does not know."""
    raise RuntimeError("Could not determine home directory.")


def test_a_jar_is_fetch_once_and_must_be_what_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from topologies.spark import java as pinned

    asked: list[str] = []

    def fetched(address: str) -> bytes:
        asked.append(address)
        return b"a jar"

    monkeypatch.setattr(pinned, "_fetch", fetched)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = hashlib.sha256(b"a jar").hexdigest()
    (tmp_path / "good.txt").write_text(f"{digest}  a/b/b-1.jar\n\n")
    (tmp_path / "bad.txt").write_text(f"{'0' * 64}  a/b/b-1.jar\n")
    (path,) = pinned.jars(tmp_path / "good.txt")
    assert pinned.jars(tmp_path / "good.txt") == [path]
    assert Path(path).read_bytes() == b"a jar"
    assert asked == ["https://repo1.maven.org/maven2/a/b/b-1.jar"]
    with pytest.raises(OSError, match="is not what it was"):
        pinned.jars(tmp_path / "bad.txt")
    assert [each.name for each in Path(path).parent.iterdir()] == [Path(path).name], "nothing half written is left"


def test_a_moment_without_a_zone_is_in_utc() -> None:
    assert spouts.kafka(AT, "a", starting=datetime(2024, 5, 1)).starting == datetime(2024, 5, 1, tzinfo=UTC)  # noqa: DTZ001


def test_spark_s_offsets_say_which_partitions_there_are_and_how_many_deliver(tmp_path: Path) -> None:
    def note(batch: int, *sources: str) -> None:
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / f"offsets/{batch}").write_text("\n".join(["v1", "{}", *sources]))

    note(0, '{"logOffset":0}', "-", '{"b":{"10":0,"2":4}}', "what another source notes")
    note(1, '{"logOffset":1}', '{"a":{"0":3}}', '{"b":{"10":0,"2":9},"c":{"0":0}}')
    note(2, '{"logOffset":1}', '{"a":{"0":3}}', '{"b":{"10":1,"2":10},"c":{"0":0}}')
    log = SourceLog(LocalFileSystem(), str(tmp_path), ("files",), ("one", "two"))
    # Of a partition that was not there before it is not known whether it brings something: it may.
    assert log.partitions(0) == {"two": Partitions(("b/2", "b/10"), 2)}
    # A partition that has come begins with offset 0.
    assert log.partitions(1) == {
        "one": Partitions(("a/0",), 1),
        "two": Partitions(("b/2", "b/10", "c/0"), 1, (OffsetRange("b", 2, 4, 9),)),
    }
    ranges = (OffsetRange("b", 2, 9, 10), OffsetRange("b", 10, 0, 1))
    assert log.partitions(2) == {
        "one": Partitions(("a/0",), 0, ()),
        "two": Partitions(("b/2", "b/10", "c/0"), 2, ranges),
    }
    assert SourceLog(LocalFileSystem(), "/nowhere", ()).partitions(5) == {}
    # Where a topic begins Spark has noted behind a byte that is zero; a partition that goes back was made anew.
    (tmp_path / "sources/2").mkdir(parents=True)
    (tmp_path / "sources/2/0").write_bytes(b'\0v1\n{"b":{"2":1,"10":0}}')
    assert log.partitions(0) == {"two": Partitions(("b/2", "b/10"), 2, (OffsetRange("b", 2, 1, 4),))}
    note(3, '{"logOffset":1}', '{"a":{"0":2}}', '{"b":{"10":1,"2":10}}')
    assert {name: found.ranges for name, found in log.partitions(3).items()} == {"one": None, "two": None}
    assert log.kafka_offsets("two") == {"b": {10: 1, 2: 10}}
    note(3, '{"logOffset":1}', '{"a":{"0":3}}', '["b"]')
    with pytest.raises(CheckpointError, match="record of the offsets of batch 3"):
        log.partitions(3)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning_after_the_last_batch(tmp_path: Path) -> None:
    notes = [
        '{"old":{"0":3},"same":{"0":1}}',
        '{"old":{"0":5},"same":{"0":2}}',
        '{"old":{"0":9,"1":4},"same":{"0":4}}',
    ]
    (tmp_path / "offsets").mkdir()
    (tmp_path / "sources/1").mkdir(parents=True)
    for batch, note in enumerate(notes):
        (tmp_path / f"offsets/{batch}").write_text("\n".join(["v1", "{}", '{"logOffset":0}', note]))
    (tmp_path / "sources/1/0").write_bytes(b'\0v1\n{"old":{"0":1},"same":{"0":0}}')
    log = SourceLog(LocalFileSystem(), str(tmp_path), ("files",), ("in",))
    assert log.read_from_beginning("in", {"old": 2}, 1) == {"old": 8}, "what the planned batch was to read of it"
    assert [log.partitions(batch)["in"].ranges for batch in (0, 2)] == [
        (OffsetRange("old", 0, 1, 3), OffsetRange("same", 0, 0, 1)),
        (OffsetRange("same", 0, 2, 4),),
    ]
    assert log.kafka_offsets("in") == {"old": {0: 0, 1: 0}, "same": {0: 4}}
    assert log.files(2) == []
    # Where no batch was committed, the first one has no beginning that could be kept.
    assert log.read_from_beginning("in", {"old": 1}, -1) == {"old": 2}
    assert log.partitions(0)["in"].ranges == (OffsetRange("same", 0, 0, 1),)
    assert (tmp_path / "sources/1/0").read_bytes().startswith(b"\0v1\n")
