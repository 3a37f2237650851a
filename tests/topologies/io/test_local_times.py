"""Times that are written without a zone, by spouts that say in which zone they are."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from topologies.graph.describing import spout_in_words
from topologies.io.file_spout import chunks_of
from topologies.io.formats import FileSplit
from windbolt import ConfigError, spouts

ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "+05:30"]
WALL = [
    dt.datetime.fromisoformat(text)
    for text in (
        "2024-03-10T02:30:00", "2024-11-03T01:30:00", "2024-03-31T02:30:00", "2024-10-27T02:30:00.25",
        "2024-10-06T02:15:00", "2024-04-07T01:45:00", "2024-06-01T12:00:00", "1890-01-01T00:00:00",
        "2200-07-01T06:00:00",
    )
]  # fmt: skip


def read(path: Path, schema: str, **options: Any) -> list[dict[str, Any]]:
    spout = spouts.files(path, schema, **options)
    chunks = chunks_of(spout, pafs.LocalFileSystem(), FileSplit(str(path)), spout.outputs()["default"])
    rows = []
    for table, _, bad in chunks:
        assert not len(bad)
        assert table.schema.equals(spout.outputs()["default"])
        rows += table.to_pylist()
    return rows


def instants(zone: str) -> list[dt.datetime]:
    """By Python, whose times have fold=0: the first of two, and the offset before a skip."""
    known = dt.timezone(dt.timedelta(hours=5, minutes=30)) if zone == "+05:30" else ZoneInfo(zone)
    return [wall.replace(tzinfo=known).astimezone(dt.UTC) for wall in WALL]


@pytest.mark.parametrize("zone", ZONES)
def test_times_without_a_zone_are_those_of_the_spouts(tmp_path: Path, zone: str) -> None:
    texts = [wall.isoformat() for wall in WALL]
    (tmp_path / "a.csv").write_text("t,x\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"t": text, "l": [text]}) for text in texts), encoding="utf-8"
    )
    pq.write_table(pa.table({"t": pa.array(WALL, pa.timestamp("ms"))}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": texts}), tmp_path / "text.parquet")
    expected = instants(zone)
    assert [row["t"] for row in read(tmp_path / "a.csv", "t timestamp", timezone=zone)] == expected
    rows = read(tmp_path / "a.jsonl", "t timestamp, l array<timestamp>", timezone=zone)
    assert [row["t"] for row in rows] == [row["l"][0] for row in rows] == expected
    assert [row["t"] for row in read(tmp_path / "a.parquet", "t timestamp", timezone=zone)] == expected
    assert [row["t"] for row in read(tmp_path / "text.parquet", "t timestamp", timezone=zone)] == expected


def test_times_with_a_zone_and_numbers_are_what_they_are(tmp_path: Path) -> None:
    given = [
        '"2024-06-01T12:00:00Z"',
        '"2024-06-01T14:00:00+02:00"',
        "1717243200000",
        '"2024-06-01"',
        '"2024-06-01T08:00"',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"t": {text}}}' for text in given), encoding="utf-8")
    noon = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
    rows = read(tmp_path / "a.jsonl", "t timestamp", timezone="America/New_York")
    assert [row["t"] for row in rows] == [noon, noon, noon, noon - dt.timedelta(hours=8), noon]
    rows = read(tmp_path / "a.jsonl", "t timestamp")
    assert rows[4]["t"] == noon - dt.timedelta(hours=4)


def test_a_zone_is_told_and_one_that_does_not_exist_refused() -> None:
    spout = spouts.files("in/*.csv", "t timestamp", timezone="Europe/Berlin")
    assert "times without a zone are of Europe/Berlin" in spout_in_words(spout)
    assert spouts.files("in/*.csv", "t timestamp", timezone="UTC").timezone is None
    with pytest.raises(ConfigError, match="Berlim"):
        spouts.files("in/*.csv", "t timestamp", timezone="Europe/Berlim")
    for zone in ("localtime", "+05:30:15"):
        with pytest.raises(ConfigError, match="cannot be used"):
            spouts.files("in/*.csv", "t timestamp", timezone=zone)
    with pytest.raises(ConfigError, match="without a schema"):
        spouts.kafka("localhost:9092", "a", timezone="Europe/Berlin")
