"""What is found out about sources without a run."""

from __future__ import annotations

import json
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.inspect_spouts import Findings, inspect_spouts, suspicious_input
from topologies.topology import Topology
from windbolt import TopologyBuilder, WindowedBolt, sinks, spouts

SCHEMA = "user string, amount double, ts timestamp"


class Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


def topology(spout: Any, **options: Any) -> Topology:
    builder = TopologyBuilder("looked_at", **options)
    builder.set_spout("orders", spout)
    builder.set_bolt("size", Size().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("size")
    return builder.build()


def written(folder: Path, *rows: Any, name: str = "1.jsonl") -> str:
    folder.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder)


def found(spout: Any, **options: Any) -> Findings:
    return inspect_spouts(topology(spout, **options))["orders"]


def order(second: int = 1, **changes: Any) -> dict[str, Any]:
    return {"user": "ada", "amount": 2.5, "ts": f"2024-01-01T06:00:{second:02}Z", **changes}


def test_the_first_rows_of_files_are_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", order(3), order(1))
    written(tmp_path / "in", order(9), name="2.jsonl")
    findings = found(spouts.files(f"{folder}/*.jsonl", SCHEMA))
    assert dict(findings.facts) == {
        "files": "2, the first is 1.jsonl",
        "read": "3 rows",
        "such as": '{"user": "ada", "amount": 2.5, "ts": "2024-01-01T06:00:03Z"}',
        "ts": "2024-01-01T06:00:01Z to 2024-01-01T06:00:09Z; written like '2024-01-01T06:00:03Z', with its offset",
    }
    assert findings.problems == findings.warnings == ()


def test_of_many_rows_only_the_first_are_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", *[order()] * 1_500)
    written(tmp_path / "in", "no JSON at all", name="2.jsonl")
    findings = found(spouts.files(f"{folder}/*.jsonl", SCHEMA))
    assert dict(findings.facts)["read"] == "the first 1,000 rows"
    assert findings.problems == findings.warnings == ()


def test_batches_in_memory_are_read() -> None:
    at = datetime(2024, 1, 1, 6, tzinfo=UTC)
    findings = found(spouts.memory(SCHEMA, [("ada", 2.5, at)]))
    assert findings.facts[0] == ("read", "1 row")
    assert findings.facts[2] == ("ts", "2024-01-01T06:00:00Z to 2024-01-01T06:00:00Z")
    (problem,) = found(spouts.memory(SCHEMA, [("ada", 2.5, "noon")])).problems
    assert "spout 'orders'" in str(problem)


def test_rows_that_cannot_be_read_are_a_warning_and_all_of_them_a_problem(tmp_path: Path) -> None:
    spout = spouts.files(written(tmp_path / "in", order(), order(amount="much")), SCHEMA, format="jsonl")
    (warning,) = found(spout).warnings
    assert "1 of the first 2 rows cannot be read" in str(warning)
    assert "'amount'" in str(warning)
    (problem,) = found(spout, on_invalid="stop").problems
    assert "stops at such a row" in str(problem)
    written(tmp_path / "in", "much")
    (problem,) = found(spout).problems
    assert "1 of the first 1 rows cannot be read" in str(problem)


def test_each_kind_of_reason_is_told_once_with_its_number(tmp_path: Path) -> None:
    rows = [order(ts=text) for text in ("03:04 PM", "noon", "05:06 AM", "2024-02-30", "07:00 AM")]
    (warning,) = found(spouts.files(written(tmp_path / "in", order(), *rows), SCHEMA, format="jsonl")).warnings
    assert "5 of the first 6 rows cannot be read. 3 times column 'ts': '03:04 PM' is no timestamp: " in str(warning)
    assert str(warning).count("AM") == 0
    assert "'noon' is no timestamp: write it like" in str(warning)
    assert "no such day" in str(warning)


def test_how_times_are_written_is_told_of_those_that_can_be_read(tmp_path: Path) -> None:
    """The reasons tell of the others; a number that is bad is not read as milliseconds."""
    rows = [order(ts=text) for text in ("1704088805.25", "2024-01-01T06:00:00Z", "noon", "2024-02-30T06:00:00Z")]
    facts = dict(found(spouts.files(written(tmp_path / "in", *rows), SCHEMA, format="jsonl")).facts)
    assert facts["ts"].endswith("; written like '2024-01-01T06:00:00Z', with its offset")
    (tmp_path / "in/1.jsonl").write_text('{"ts": "noon"}\n')
    facts = dict(found(spouts.files(tmp_path / "in", SCHEMA, format="jsonl")).facts)
    assert facts["ts"] == "no times"


def test_a_file_that_is_something_else_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_text("no Parquet")
    (problem,) = found(spouts.files(f"{tmp_path}/*.parquet", SCHEMA)).problems
    assert "spout 'orders'" in str(problem)
    assert "1.parquet" in str(problem)


def test_a_folder_that_is_not_there_is_a_problem_and_one_without_files_a_warning(tmp_path: Path) -> None:
    (problem,) = found(spouts.files(f"{tmp_path}/nowhere/*.jsonl", SCHEMA)).problems
    assert f"'{tmp_path}/nowhere' is not there" in str(problem)
    (warning,) = found(spouts.files(f"{tmp_path}/*.jsonl", SCHEMA)).warnings
    assert "no file matches" in str(warning)
    assert "is empty" in str(warning)
    written(tmp_path / "in", order(), name="1.txt")
    (warning,) = found(spouts.files(f"{tmp_path}/in/*.jsonl", SCHEMA)).warnings
    assert "/in holds 1.txt" in str(warning)


def test_a_column_that_no_row_has_is_a_warning(tmp_path: Path) -> None:
    rows = [order(), {"usr": "bob", "ts": "2024-01-01T06:00:02Z"}, "no JSON", "5"]
    spout = spouts.files(written(tmp_path / "in", *rows), f"{SCHEMA}, usrs string", format="jsonl")
    (warning,) = [each for each in found(spout).warnings if "no row" in str(each)]
    assert str(warning).startswith("spout 'orders': no row has 'usrs'; did you mean 'usr'?")
    assert "the rows have usr besides" in str(warning)


RARE = [
    ("in no row", {}, 1, True),
    ("in a row after the first thousand", {"usr": "ada"}, 1, False),
    ("as an escaped key", '{"\\u0075sr": "ada"}', 1, False),
    ("as a value alone", {"name": "usr"}, 1, True),
    ("within another object", {"of": {"usr": "ada"}}, 1, True),
    ("in a file after the first twenty", {"usr": "ada"}, 30, False),
]


@pytest.mark.parametrize(("row", "files", "told"), [each[1:] for each in RARE], ids=[each[0] for each in RARE])
def test_a_column_is_looked_for_in_all_rows(tmp_path: Path, row: object, files: int, told: bool) -> None:
    others: list[object] = [{"ts": "2024-01-01T06:00:02Z"}] * 1_500
    for number in range(files - 1):
        written(tmp_path / "in", *others[:2], name=f"{number:02}.jsonl")
    written(tmp_path / "in", *others, row, *others[:3], name="last.jsonl")
    warnings = found(spouts.files(f"{tmp_path}/in/*.jsonl", "usr string, ts timestamp")).warnings
    assert [str(each).startswith("spout 'orders': no row has 'usr'") for each in warnings] == [True] * told


def test_a_column_that_one_row_has_is_none(tmp_path: Path) -> None:
    rows = [{"ts": "2024-01-01T06:00:02Z"}, order()]
    assert found(spouts.files(written(tmp_path / "in", *rows), SCHEMA, format="jsonl")).warnings == ()


def test_a_run_asks_for_dubious_input_only(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", order(), "no JSON")
    assert suspicious_input(topology(spouts.files(f"{folder}/*.jsonl", SCHEMA))) == []
    (unmatched,) = suspicious_input(topology(spouts.files(f"{folder}/*.json", SCHEMA)))
    assert "no file matches" in str(unmatched)
    (unknown,) = suspicious_input(topology(spouts.files(f"{folder}/*.jsonl", f"{SCHEMA}, place string")))
    assert "has no 'place'" in str(unknown)
    assert suspicious_input(topology(spouts.files(f"{tmp_path}/nowhere/*.jsonl", SCHEMA))) == []


def test_events_without_a_time_are_told(tmp_path: Path) -> None:
    spout = spouts.files(written(tmp_path / "in", order(), order(ts=None)), SCHEMA, format="jsonl")
    (warning,) = found(spout).warnings
    assert "1 of the first 2 rows have no usable time in 'ts'" in str(warning)
    written(tmp_path / "in", order(ts=None))
    (problem,) = found(spout).problems
    assert "1 of the first 1 rows have no usable time in 'ts'" in str(problem)


def test_seconds_taken_for_milliseconds_are_told(tmp_path: Path) -> None:
    spout = spouts.files(written(tmp_path / "in", order(ts=1_704_088_803)), SCHEMA, format="jsonl")
    (warning,) = found(spout).warnings
    assert "are before 1990" in str(warning)
    assert "milliseconds" in str(warning)


def test_kafka_is_connected_to_and_where_that_does_not_answer_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        spout = spouts.kafka(f"127.0.0.1:1,{address}", "orders", SCHEMA)
        (warning,) = found(spout).warnings
        monkeypatch.setitem(sys.modules, "confluent_kafka", None)
        findings = found(spout)
    assert f"spout 'orders': Kafka at 127.0.0.1:1,{address} does not answer" in str(warning)
    assert f"windbolt[kafka]'); {address} can be connected to" in dict(findings.facts)["read"]
    assert findings.warnings == ()
    (warning,) = found(spouts.kafka(address, "orders", SCHEMA)).warnings
    assert "no server of Kafka can be connected to" in str(warning)


@pytest.mark.parametrize(
    ("spout", "why"),
    [
        (spouts.files("s3a://bucket/*.jsonl", SCHEMA), "these files are not on this machine"),
        (spouts.stream(lambda spark: None, SCHEMA), "Spark makes"),
    ],
)
def test_what_is_not_on_this_machine_is_said_not_to_be_read(spout: Any, why: str) -> None:
    findings = found(spout)
    assert dict(findings.facts)["read"].startswith(f"nothing: {why}")
    assert findings.problems == findings.warnings == ()
