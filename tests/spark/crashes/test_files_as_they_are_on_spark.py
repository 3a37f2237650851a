"""Files as teams have them (compressed, in folders, of spreadsheets, with times of a zone): each row is in one batch on
both engines, also where a run dies in the middle and the other engine goes on."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tests.spark.engines import BEGUN_AND_FINISHED, ENGINES
from tests.spark.tools import at_phase, in_order
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts

MOMENT = datetime(2024, 10, 27, 1, 30, tzinfo=UTC)


@dataclass
class Case:
    """Three files of a folder, by their names below it, the spout that reads them, and the rows."""

    files: dict[str, bytes | Callable[[Path], None]]
    schema: str | None
    rows: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    paths: str | list[str] = "."


def line(number: int) -> bytes:
    return json.dumps({"n": number}).encode() + b"\n"


def compressed(kind: str, data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with pa.output_stream(str(path), compression=kind) as out:
            out.write(data)

    return write


def three(*names: str, written: Callable[[int], Any]) -> dict[str, Any]:
    return {name: written(number) for number, name in enumerate(names)}


def table(write: Callable[[pa.Table, str], None]) -> Callable[[int], Callable[[Path], None]]:
    return lambda number: lambda path: write(pa.table({"n": [number], "ts": pa.array([MOMENT])}), str(path))


N: list[dict[str, Any]] = [{"n": 0}, {"n": 1}, {"n": 2}]
STAMPED: list[dict[str, Any]] = [{**row, "ts": MOMENT} for row in N]
CASES = {
    "compressed": Case(
        {
            "a.jsonl.gz": gzip.compress(line(0)),
            "b.jsonl.bz2": bz2.compress(line(1)),
            "c.jsonl.lz4": compressed("lz4", line(2)),
            "d.jsonl.zst": compressed("zstd", line(3)),
        },
        "n long",
        [*N, {"n": 3}],
        {"format": "jsonl"},
    ),
    "pretty": Case(
        three("a.json", "b.json", "c.json", written=lambda each: json.dumps([{"n": each}], indent=2).encode()),
        "n long",
        N,
    ),
    "lines": Case(
        three("a.log", "b.log", "c.log.gz", written=lambda each: gzip.compress(b"x\n\nz") if each == 2 else b"x\n\nz"),
        None,
        [{"line": text, "file_row": row} for _ in range(3) for row, text in enumerate(["x", "", "z"])],
        {"metadata": "row", "format": "text"},
        "*.log*",
    ),
    "orc": Case(
        three("a.orc", "b.orc", "c.orc", written=table(orc.write_table)),
        "n long, ts timestamp",
        STAMPED,
    ),
    "arrow": Case(
        three("a.arrow", "b.arrow", "c.arrow", written=table(feather.write_feather)),
        "n long, ts timestamp",
        STAMPED,
    ),
    "excel": Case(
        three("a.csv", "b.csv", "c.csv", written=lambda each: f"sep=;\r\nn;größe\r\n{each};1,5\r\n".encode("utf-16")),
        "n long, `größe` decimal(5, 2)",
        [{**row, "größe": Decimal("1.50")} for row in N],
        {"decimal_point": ",", "encoding": "utf-16"},
    ),
    "hive": Case(
        three(
            "dt=2024-01-01/hour=06/a.parquet",
            "dt=2024-01-02/hour=__HIVE_DEFAULT_PARTITION__/b.parquet",
            "dt=2024-01-03/c.parquet",
            written=table(pq.write_table),
        ),
        "n long, ts timestamp",
        [{**row, "dt": date(2024, 1, row["n"] + 1), "hour": [6, 0, 0][row["n"]]} for row in STAMPED],
        {"partition_columns": "dt date, hour int", "defaults": {"hour": 0}, "format": "parquet"},
    ),
    "deep": Case(three("a.jsonl", "x/b.jsonl", "x/y/z/c.jsonl", written=line), "n long", N, {}, "**/*.jsonl"),
    "several": Case(
        {"x/a.jsonl": line(0), "y/b.jsonl": line(1), "y/c.jsonl": line(2), "d.jsonl": line(3)},
        "n long",
        N,
        {},
        ["x", "y/*.jsonl"],
    ),
    "times": Case(
        three("a.csv", "b.csv", "c.csv", written=lambda each: (
            "n,ts,text,s,ms,us,ns,day\n"
            f"{each},27/10/2024 02:30 AM,2024-10-27 03:30,1729992600,1729992600000.5,1729992600000000,"
            "1729992600000000999,20241027\n"
        ).encode()),
        "n long, ts timestamp, text timestamp, s timestamp, ms timestamp, us timestamp, ns timestamp, day date",
        [
            {
                **row,
                "ts": datetime(2024, 10, 27, 0, 30, tzinfo=UTC),  # the first of the hour that is there twice
                "text": datetime(2024, 10, 27, 2, 30, tzinfo=UTC),
                **dict.fromkeys(("s", "us", "ns"), MOMENT),
                "ms": MOMENT.replace(microsecond=500),
                "day": date(2024, 10, 27),
            }
            for row in N
        ],
        {
            "timezone": "Europe/Berlin",
            "times": {"ts": "%d/%m/%Y %I:%M %p", "day": "%Y%m%d", **{unit: unit for unit in ("s", "ms", "us", "ns")}},
        },
    ),
}  # fmt: skip


def topology(folder: Path) -> tuple[Topology, dict[str, MemorySink]]:
    builder, out = TopologyBuilder("files"), {}
    for name, case in CASES.items():
        paths = [str(folder / name / each) for each in ([case.paths] if isinstance(case.paths, str) else case.paths)]
        builder.set_spout(name, spouts.files(paths, case.schema, files_per_batch=1, **case.options))
        for stream in ("default", "errors"):
            out[f"{name}-{stream}"] = sinks.memory()
            builder.set_sink(f"{name}-{stream}", out[f"{name}-{stream}"]).from_(name, stream)
    return builder.build(), out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    for name, case in CASES.items():
        for number, (inside, written) in enumerate(case.files.items()):
            path = made / name / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(written):
                written(path)
            else:
                path.write_bytes(written)
            os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    return made


@BEGUN_AND_FINISHED
@pytest.mark.usefixtures("spark")
def test_each_row_is_read_once_though_runs_die(begun: str, finished: str, folder: Path, tmp_path: Path) -> None:
    built, out = topology(folder)
    for batch, phase in ((1, "ingest"), (1, "commit"), (2, "sinks")):
        ENGINES[begun].run_until(built, tmp_path / "checkpoint", at_phase(batch, phase))
    ENGINES[finished].run(built, tmp_path / "checkpoint")
    for name, case in CASES.items():
        assert out[f"{name}-errors"].rows == [], name
        assert in_order(out[f"{name}-default"].rows) == in_order(case.rows), name
        assert len(out[f"{name}-default"].batches) >= 3, name
