"""The number of rows handed over at a time follows the width of the rows, and never passes a user's own limit."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.spark.source import RowsAtOnce
from windowing.schema import parse_schema

BYTES, ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"


class Session:
    """What is asked of a session."""

    def __init__(self, rows: int, bytes_set: str | None = None) -> None:
        self.settings: dict[str, Any] = {ROWS: rows}
        self.bytes_set = bytes_set
        self.sparkContext = self.conf = self

    def getConf(self) -> Session:  # noqa: N802
        return self

    def get(self, name: str) -> Any:
        return self.bytes_set if name == BYTES else self.settings[name]

    def set(self, name: str, value: Any) -> None:
        self.settings[name] = value


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("ts timestamp, key int, value double", 200_000),
        ("user string, amount double", 255),
        ("value binary", 200),
        (", ".join(f"c{number} double" for number in range(100)), 20_971),
    ],
)
def test_before_any_row_the_columns_tell(columns: str, rows: int) -> None:
    assert RowsAtOnce([parse_schema("flag boolean"), parse_schema(columns)]).rows() == rows


@pytest.mark.parametrize(("row_bytes", "rows"), [(100.0, 10_000), (2_000.0, 2_097), (1e6, 200), (0.0, 255)])
def test_then_the_rows_tell(row_bytes: float, rows: int) -> None:
    limit = RowsAtOnce([parse_schema("user string, amount double")])
    limit.note_size(row_bytes)
    limit.note_size(row_bytes / 3)
    assert limit.rows() == rows


def test_the_limit_grows_from_batch_to_batch_and_stays_below_the_user_s() -> None:
    limit, session = RowsAtOnce([parse_schema("user string")]), Session(1_000)
    for learned, rows in ((0.0, 256), (1_000.0, 1_000), (1.0, 1_000), (10_000.0, 419)):
        limit.note_size(learned)
        limit.apply(session)  # type: ignore[arg-type]
        assert session.settings[ROWS] == rows


def test_no_limit_in_rows_is_no_limit() -> None:
    limit, session = RowsAtOnce([parse_schema("user string")]), Session(0)
    limit.apply(session)  # type: ignore[arg-type]
    assert session.settings[ROWS] == 256


def test_who_counts_bytes_is_left_alone() -> None:
    limit, session = RowsAtOnce([parse_schema("user string")]), Session(5, "4m")
    limit.apply(session)  # type: ignore[arg-type]
    assert session.settings == {ROWS: 5}
