"""Times that are finer than microseconds: cut, and counted, once for each row; or invalid, if that is said.

What a user would lose: an event that falls into the window before its own, without a word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from tests.helpers.examples import examples
from topologies.engine.kafka_records import Records
from topologies.engine.report import BatchReport
from topologies.io.formats import FileSplit, file_format
from topologies.io.formats.text_values import cut_mask, parse_text
from topologies.run import run_metrics
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, BatchBolt, Bolt, Emit, TupleWindow, WindowedBolt, aggregates
from windowing.errors import ConfigError, SchemaError
from windowing.events import Tuple
from windowing.schema import TIMESTAMP, parse_schema
from windowing.timestamps import from_datetime

FS = pafs.LocalFileSystem()
SECOND = 1_483_228_800
"""2017-01-01, in seconds."""
REST = [0, 999, 1000, 123_456_789, 123_456_000, 1, 999_999_999]
"""Nanoseconds of events."""
FINE = [1, 3, 5, 6]
"""Those that microseconds cannot hold."""
MICROS = [SECOND * 1_000_000 + rest // 1000 for rest in REST]


def texts(zone: str = "Z") -> list[str]:
    return [f"2017-01-01T00:00:00.{rest:09}{zone}" for rest in REST]


def nanos() -> pa.Array:
    return pa.array([SECOND * 10**9 + rest for rest in REST], pa.timestamp("ns", "UTC"))


def csv(path: Path, spelled: list[str]) -> Path:
    path.write_text("id,ts\n" + "".join(f'{at},"{text}"\n' for at, text in enumerate(spelled)), encoding="utf-8")
    return path


def json_lines(path: Path, spelled: list[Any]) -> Path:
    path.write_text("".join(json.dumps({"id": at, "ts": each}) + "\n" for at, each in enumerate(spelled)), "utf-8")
    return path


def json_array(path: Path, spelled: list[Any]) -> Path:
    path.write_text(json.dumps([{"id": at, "ts": each} for at, each in enumerate(spelled)]), "utf-8")
    return path


def parquet(path: Path, times: pa.Array, **how: Any) -> Path:
    pq.write_table(pa.table({"id": np.arange(len(times)), "ts": times}), path, **how)
    return path


def arrow(path: Path, times: pa.Array) -> Path:
    feather.write_feather(pa.table({"id": np.arange(len(times)), "ts": times}), path, compression="uncompressed")
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "csv": lambda folder: csv(folder / "a.csv", texts()),
    "csv without a zone": lambda folder: csv(folder / "a.csv", [" " + text.replace(".", ",") for text in texts("")]),
    "jsonl": lambda folder: json_lines(folder / "a.jsonl", texts("+00:00")),
    "jsonl beside numbers": lambda folder: json_lines(folder / "a.jsonl", [*texts(), SECOND * 1000]),
    "json": lambda folder: json_array(folder / "a.json", texts()),
    "parquet": lambda folder: parquet(folder / "a.parquet", nanos()),
    "parquet int96": lambda folder: parquet(folder / "a.parquet", nanos(), use_deprecated_int96_timestamps=True),
    "parquet dictionary": lambda folder: parquet(folder / "a.parquet", nanos().dictionary_encode()),
    "parquet text": lambda folder: parquet(folder / "a.parquet", pa.array(texts())),
    "arrow": lambda folder: arrow(folder / "a.arrow", nanos()),
}


def read(path: Path, schema: str, on_truncation: str = "cut") -> tuple[list[dict[str, Any]], list[int], list[Any]]:
    """Good rows, the numbers of truncated ones, and bad rows."""
    rows: list[dict[str, Any]] = []
    cut: list[int] = []
    bad: list[Any] = []
    form = file_format(path.suffix[1:], "reading", on_truncation=on_truncation)
    for table, _, wrong in form.read(FS, FileSplit(str(path)), parse_schema(schema)):
        rows += table.to_pylist()
        cut += wrong.truncated.tolist()
        bad += wrong.rows.to_pylist()
    return rows, sorted(cut), sorted(bad, key=lambda row: row["row"])


@pytest.mark.parametrize("kind", FILES)
def test_what_is_cut_is_told_and_nothing_else(tmp_path: Path, kind: str) -> None:
    path = FILES[kind](tmp_path)
    rows, cut, bad = read(path, "id long, ts timestamp")
    assert [micros(row["ts"]) for row in rows][: len(REST)] == MICROS
    assert (cut, bad) == (FINE, [])
    rows, cut, bad = read(path, "id long, ts timestamp", "error")
    assert [row["id"] for row in rows][:3] == [at for at in range(len(REST)) if at not in FINE]
    assert (cut, [row["row"] for row in bad]) == ([], FINE)
    assert all("column 'ts'" in row["reason"] and "finer than a microsecond" in row["reason"] for row in bad)
    assert read(path, "id long", "error")[2] == [] or path.suffix == ".parquet"


def micros(moment: datetime) -> int:
    return from_datetime(moment)


NESTED = "id long, ts timestamp, all array<timestamp>, one struct<at: timestamp>, by map<string, timestamp>"


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "arrow"])
def test_a_row_counts_once_wherever_its_times_are(tmp_path: Path, kind: str) -> None:
    whole, fine = "2017-01-01T00:00:00.000001000Z", "2017-01-01T00:00:00.000001001Z"
    rows: list[dict[str, Any]] = [
        {"id": 0, "ts": whole, "all": [whole, whole], "one": {"at": whole}, "by": {"a": whole}},
        {"id": 1, "ts": fine, "all": [fine, whole, fine], "one": {"at": fine}, "by": {"a": fine}},
        {"id": 2, "ts": whole, "all": [], "one": {"at": fine}, "by": {}},
        {"id": 3, "ts": None, "all": None, "one": None, "by": {"b": whole, "a": fine}},
        {"id": 4, "ts": whole, "all": [whole, fine], "one": None, "by": {}},
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif kind == "json":
        path.write_text(json.dumps(rows), "utf-8")
    elif kind == "csv":
        nested = ("all", "one", "by")
        cells = [[row["id"], row["ts"] or "", *(json.dumps(row[name]) for name in nested)] for row in rows]
        frame = pd.DataFrame(cells, columns=["id", "ts", "all", "one", "by"])
        frame.to_csv(path, index=False)
    else:
        time = pa.timestamp("ns", "UTC")
        kinds = {"all": pa.list_(time), "one": pa.struct([("at", time)]), "by": pa.map_(pa.string(), time)}
        moved = [_moved(row) for row in rows]
        columns = {name: pa.array([row[name] for row in moved], kinds.get(name)) for name in ("all", "one", "by")}
        ts = pa.array([row["ts"] for row in moved], time)
        table = pa.table({"id": pa.array([0, 1, 2, 3, 4]), "ts": ts, **columns})
        pq.write_table(table, path) if kind == "parquet" else feather.write_feather(table, path, compression="lz4")
    found, cut, bad = read(path, NESTED)
    assert [row["id"] for row in found] == [0, 1, 2, 3, 4]
    assert (cut, bad) == ([1, 2, 3, 4], [])
    found, cut, bad = read(path, NESTED, "error")
    assert [row["id"] for row in found] == [0]
    assert [row["row"] for row in bad] == [1, 2, 3, 4]


def _moved(value: Any) -> Any:
    """The texts of times as nanoseconds."""
    if isinstance(value, str):
        return pd.Timestamp(value).value
    if isinstance(value, dict):
        return {name: _moved(each) for name, each in value.items()}
    return [_moved(each) for each in value] if isinstance(value, list) else value


@examples(40)
@given(st.lists(st.integers(0, 12).flatmap(lambda n: st.text("0123456789", min_size=n, max_size=n)), min_size=1))
def test_text_is_cut_by_its_digits_alone(fractions: list[str]) -> None:
    spelled = [f"1969-12-31 23:59:59{'.' * bool(each)}{each}" for each in fractions]
    times, flags = parse_text(pa.array([*spelled, None, "no time"]), TIMESTAMP)
    assert times.cast(pa.int64()).to_pylist()[:-2] == [-1_000_000 + int(each[:6].ljust(6, "0")) for each in fractions]
    cut = None if flags is None else cut_mask(flags)
    expected = [bool(each[6:].strip("0")) for each in fractions]
    assert (cut is not None and cut.tolist()[:-2]) or [False] * len(expected) == expected


def test_times_of_int96_in_all_years(tmp_path: Path) -> None:
    """Beyond 2262 they do not fit into nanoseconds: Arrow wraps them."""
    days = [0, 2_932_896, 200_000, 300_000]  # 1970, 9999-12-31, 2517, 2791; Arrow 21 writes those before 1970 wrongly
    path = tmp_path / "a.parquet"
    given_times = pa.array([day * 86_400_000_000 + 5 for day in days], pa.timestamp("us"))
    parquet(path, given_times, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False,
            write_statistics=False)  # fmt: skip
    content = path.read_bytes()
    for day in days[1:3]:  # Arrow writes only whole microseconds of these years
        plain = (5000).to_bytes(8, "little") + (day + 2_440_588).to_bytes(4, "little")
        assert content.count(plain) == 1
        content = content.replace(plain, (5123).to_bytes(8, "little") + (day + 2_440_588).to_bytes(4, "little"))
    path.write_bytes(content)
    rows, cut, bad = read(path, "id long, ts timestamp")
    assert [micros(row["ts"]) for row in rows] == [day * 86_400_000_000 + 5 for day in days]
    assert (cut, bad) == ([1, 2], [])
    assert [row["row"] for row in read(path, "id long, ts timestamp", "error")[2]] == [1, 2]


# in a run


class Later(Bolt):
    """Every event but the first."""

    outputs = "id long, ts timestamp"

    def execute(self, tuple: Tuple) -> Any:
        """It, if it is not the first."""
        return (tuple["id"], tuple["ts"]) if tuple["id"] != 1 else None


class Same(BatchBolt):
    """All events."""

    outputs = "id long, ts timestamp"

    def execute(self, batch: pa.Table) -> Any:
        """They."""
        return batch


class Sizes(WindowedBolt):
    """Windows by their size."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        """The size."""
        return (len(window),)


def play(spout: Any, **options: Any) -> BatchReport:
    """The last report of a run: windows right behind the spout, behind a filter, a BatchBolt, and in two copies."""
    builder = TopologyBuilder("fine", **options)
    builder.set_spout("s", spout)
    builder.set_bolt("later", Later()).shuffle_grouping("s")
    builder.set_bolt("same", Same()).shuffle_grouping("s")
    for name, source in (("n", "s"), ("behind", "later"), ("batched", "same")):
        windows = AggregateBolt(n=aggregates.count()).with_tumbling_window("1m").with_timestamp_field("ts")
        builder.set_bolt(name, windows).global_grouping(source)
        builder.set_sink(f"{name}_out", sinks.discard()).from_(name)
    sizes = Sizes().with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("twice", sizes, 2).all_grouping("s")
    builder.set_sink("twice_out", sinks.discard()).from_("twice")
    last = run_local(builder.build(), RunOptions()).last
    assert last is not None
    return last


@pytest.mark.parametrize("how", [{}, {"merge_by": "ts"}, {"timezone": "Asia/Tokyo"}, {"block_size": 64}])
def test_a_run_counts_each_row_once(tmp_path: Path, how: dict[str, Any]) -> None:
    csv(tmp_path / "a.csv", texts())
    csv(tmp_path / "b.csv", [*texts(""), "no time"])
    last = play(spouts.files(tmp_path / "*.csv", "id long, ts timestamp", **how))
    assert last.spouts["s"] == {"rows": 14, "invalid": 1, "unreadable_files": 0, "truncated": 8}
    found = {name: bolt.accounts["truncated"] for name, bolt in last.bolts.items()}
    assert found == {"n": 8, "behind": 6, "batched": 8, "twice": 16}
    assert last.bolts["n"].accounts["received"] == 15
    assert last.bolts["n"].metrics["truncated"] == 8
    assert last.to_json()["bolts"]["n"]["streams"]["s"]["truncated"] == 8


class Calls(Same):
    """Counts how often it is called, in a column."""

    outputs = "id long, ts timestamp, rows long"

    def execute(self, batch: pa.Table) -> Any:
        """The events, each with the number of those that came with it."""
        return batch.append_column("rows", pa.array([len(batch)] * len(batch)))


@pytest.mark.parametrize(("turns", "rows", "told"), [(3, {1}, 2), (1000, {1000}, 0)])
def test_a_batch_bolt_is_called_apart_for_cut_rows_unless_they_take_turns_often(
    tmp_path: Path, turns: int, rows: set[int], told: int
) -> None:
    fine = ["2017-01-01T00:00:00.123456789Z", "2017-01-01T00:00:00Z"]
    csv(tmp_path / "a.csv", [fine[at % 2] for at in range(turns)])
    builder = TopologyBuilder("turns")
    builder.set_spout("s", spouts.files(tmp_path / "*.csv", "id long, ts timestamp"))
    builder.set_bolt("calls", Calls()).shuffle_grouping("s")
    windows = AggregateBolt(least=aggregates.min("rows"), n=aggregates.count()).with_tumbling_window("1m")
    builder.set_bolt("n", windows.with_timestamp_field("ts")).global_grouping("calls")
    sink = sinks.memory()
    builder.set_sink("out", sink).from_("n")
    last = run_local(builder.build(), RunOptions()).last
    assert last is not None
    assert last.spouts["s"]["truncated"] == (turns + 1) // 2
    assert last.bolts["n"].accounts["truncated"] == told
    assert {row["least"] for row in sink.rows} == rows


def test_a_run_that_cuts_nothing(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", texts())
    last = play(spouts.files(tmp_path / "*.csv", "id long, ts timestamp", on_truncation="error"))
    assert last.spouts["s"] == {"rows": 3, "invalid": 4, "unreadable_files": 0, "truncated": 0}
    assert (last.bolts["n"].accounts["invalid"], last.bolts["n"].accounts["truncated"]) == (4, 0)


def test_metrics_have_it(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", texts())
    builder = TopologyBuilder("fine")
    builder.set_spout("s", spouts.files(tmp_path / "*.csv", "id long, ts timestamp"))
    windows = AggregateBolt(n=aggregates.count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("n", windows).global_grouping("s")
    builder.set_sink("out", sinks.discard()).from_("n")
    topology = builder.build()
    last = run_local(topology, RunOptions()).last
    assert last is not None
    found = run_metrics.samples_of_bolt("fine", topology.windowed["n"], last.bolts["n"])
    assert [each.value for each in found if each.labels[-1] == "truncated"] == [4]


@pytest.mark.parametrize("on_truncation", ["cut", "error"])
def test_records_of_kafka(on_truncation: Any) -> None:
    values = [json.dumps({"id": at, "ts": text}).encode() for at, text in enumerate(texts())]
    count = len(values)
    table = pa.table(
        {
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": np.arange(100, 100 + count),
            "timestamp": pa.array([SECOND] * count, pa.timestamp("s")).cast(TIMESTAMP),
            "value": pa.array(values, pa.binary()),
        }
    )
    spout = spouts.kafka("h:9092", "t", "id long, ts timestamp", on_truncation=on_truncation)
    builder = TopologyBuilder("kafka")
    builder.set_spout("s", spout)
    builder.set_bolt("same", Same()).shuffle_grouping("s")
    builder.set_sink("out", sinks.discard()).from_("same")
    (batch,) = Records("s", [table]).read(builder.build())
    if on_truncation == "cut":
        assert batch.truncated is not None
        assert batch.positions[batch.truncated].tolist() == [100 + at for at in FINE]
    else:
        assert batch.truncated is None
        assert batch.bad is not None
        assert batch.bad["row"].to_pylist() == [100 + at for at in FINE]


def test_where_nothing_is_cut_the_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"on_truncation='round'.*'cut' or 'error'"):
        spouts.files("a.csv", "ts timestamp", on_truncation="round")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="on_truncation='error' and without a schema"):
        spouts.kafka("h:9092", "t", on_truncation="error")
    with pytest.raises(ConfigError, match="on_truncation=None"):
        AggregateBolt(n=aggregates.count()).with_timestamp_extractor(len, on_truncation=None)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="would lose data"):
        spouts.memory("ts timestamp", [{"ts": pd.Timestamp(texts()[1])}]).tables()


# extractors


class SameTexts(BatchBolt):
    """All texts."""

    outputs = "text string"

    def execute(self, batch: pa.Table) -> Any:
        """They."""
        return batch


def extracted(extractor: Any, source: str = "s", **how: Any) -> dict[str, int]:
    builder = TopologyBuilder("extracted")
    builder.set_spout("s", spouts.memory("text string", [(text,) for text in texts()]))
    builder.set_bolt("same", SameTexts()).shuffle_grouping("s")
    builder.set_sink("texts", sinks.discard()).from_("same")
    bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("1h")
    builder.set_bolt("n", bolt.with_timestamp_extractor(extractor, **how)).global_grouping(source)
    builder.set_sink("out", sinks.discard()).from_("n")
    last = run_local(builder.build(), RunOptions()).last
    assert last is not None
    accounts = last.bolts["n"].accounts
    return {name: accounts[name] for name in ("windowed", "invalid", "truncated")}


EXTRACTORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "pandas": (lambda event: pd.Timestamp(event["text"]), {}),
    "numpy": (lambda event: np.datetime64(event["text"][:-1], "ns"), {}),
    "arrow": (lambda table: pa.array([pd.Timestamp(text).value for text in table["text"].to_pylist()])
              .cast(pa.timestamp("ns")), {"columns": True}),
    "a series": (lambda table: pd.Series(pd.to_datetime(table["text"].to_pandas())), {"columns": True}),
}  # fmt: skip


@pytest.mark.parametrize("source", ["s", "same"])
@pytest.mark.parametrize("kind", EXTRACTORS)
def test_times_of_extractors_also_behind_a_batch_bolt(kind: str, source: str) -> None:
    extractor, how = EXTRACTORS[kind]
    assert extracted(extractor, source, **how) == {"windowed": 7, "invalid": 0, "truncated": 4}
    assert extracted(extractor, source, **how, on_truncation="error")["invalid"] == 4


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_of_numpy_counts_its_own_unit(unit: Any) -> None:
    builder = TopologyBuilder("extracted")
    builder.set_spout("s", spouts.memory("text string", [("2024-01-01T00:00:05",), ("NaT",)]))
    bolt = AggregateBolt(at=aggregates.window_start()).with_tumbling_window("5s")
    extractor = lambda event: np.datetime64(event["text"], unit)  # noqa: E731
    builder.set_bolt("n", bolt.with_timestamp_extractor(extractor)).global_grouping("s")
    out = sinks.memory()
    builder.set_sink("out", out).from_("n")
    last = run_local(builder.build(), RunOptions()).last
    moments = [row["at"] for row in out.rows]
    assert moments == [datetime(2024, 1, 1, tzinfo=UTC)]
    assert last is not None
    assert last.bolts["n"].accounts["invalid"] == 1


def test_an_extractor_may_return_no_time_of_pandas_or_one_that_no_calendar_has() -> None:
    """NaT is a datetime, and NumPy begins to count again where microseconds end: 2 ** 60 seconds are 0 of them."""
    moments = [pd.NaT, np.datetime64(2**60, "s"), np.datetime64(-(2**62), "ms"), np.datetime64(10**15, "D")]
    moments += [np.datetime64(1, "Y"), pd.Timestamp(1, unit="ns")]
    builder = TopologyBuilder("extracted")
    builder.set_spout("s", spouts.memory("place long", [(place,) for place in range(len(moments))]))
    bolt = AggregateBolt(at=aggregates.window_start(), n=aggregates.count()).with_tumbling_window("5s")
    bolt = bolt.with_alignment(bounds="[start, end)").with_timestamp_extractor(lambda event: moments[event["place"]])
    builder.set_bolt("n", bolt).global_grouping("s")
    out = sinks.memory()
    builder.set_sink("out", out).from_("n")
    last = run_local(builder.build(), RunOptions()).last
    assert [row["at"].year for row in out.rows] == [1970, 1971]
    assert last is not None
    accounts = last.bolts["n"].accounts
    assert (accounts["invalid"], accounts["truncated"]) == (4, 1)


def test_an_invalid_row_does_not_count_at_the_bolt_either(tmp_path: Path) -> None:
    """Its time was cut, and its lifetime ends before it begins."""
    ends = ["2018-01-01", "2016-01-01"] * 4
    rows = [{"ts": text, "until": until} for text, until in zip(texts(), ends, strict=False)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    builder = TopologyBuilder("lasting")
    builder.set_spout("s", spouts.files(str(tmp_path), "ts timestamp, until timestamp"))
    bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("1h").with_alignment(bounds="[start, end)")
    builder.set_bolt("n", bolt.with_timestamp_field("ts").with_lifetime("until")).global_grouping("s")
    builder.set_sink("out", sinks.discard()).from_("n")
    last = run_local(builder.build(), RunOptions()).last
    assert last is not None
    accounts = last.bolts["n"].accounts
    assert (accounts["invalid"], accounts["truncated"]) == (3, len([each for each in FINE if each % 2 == 0]))
    assert last.spouts["s"]["truncated"] == 4


class OddAndThird(BatchBolt):
    """Odd events on one stream, each third one twice on another."""

    outputs: ClassVar[dict[str, str]] = {"default": "id long, ts timestamp", "thirds": "id long, ts timestamp"}

    def execute(self, batch: pa.Table) -> Any:
        """Both streams."""
        ids = batch["id"].to_numpy()
        yield Emit(batch.filter(pa.array(ids % 2 == 1)))
        yield Emit(batch.take(np.repeat(np.flatnonzero(ids % 3 == 0), 2)), stream="thirds")


def test_a_batch_bolt_keeps_the_order_of_rows_some_of_which_were_cut(tmp_path: Path) -> None:
    fine = [at for at in range(60) if at % 5 in (0, 1)]
    times = [f"2024-01-01T00:00:00.000001{'7' if at in fine else ''}Z" for at in range(60)]
    csv(tmp_path / "a.csv", times)
    builder = TopologyBuilder("mixed")
    builder.set_spout("s", spouts.files(tmp_path / "a.csv", "id long, ts timestamp"))
    builder.set_bolt("split", OddAndThird()).shuffle_grouping("s")
    outs = {}
    for name, stream in (("odd", "default"), ("thirds", "thirds")):
        collected = AggregateBolt(ids=aggregates.collect("id")).with_tumbling_window("1m").with_timestamp_field("ts")
        builder.set_bolt(name, collected).global_grouping("split", stream=stream)
        outs[name] = sinks.memory()
        builder.set_sink(f"{name}_out", outs[name]).from_(name)
    last = run_local(builder.build(), RunOptions()).last
    assert last is not None
    expected = {"odd": [*range(1, 60, 2)], "thirds": [at for at in range(0, 60, 3) for _ in range(2)]}
    for name, ids in expected.items():
        assert outs[name].rows == [{"ids": ids}]
        assert last.bolts[name].accounts["truncated"] == sum(at in fine for at in ids)
