"""Rows are taken out of tables of any size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from windowing.columns import take_rows


@pytest.mark.parametrize("most", [1 << 31, 4_000])
def test_the_rows_are_those_of_take(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windowing.columns._MOST", most)
    texts = [None if at % 7 == 0 else "x" * (at % 13) + str(at) for at in range(2_000)]
    part = pa.table(
        {"text": texts, "raw": [None if text is None else text.encode() for text in texts], "n": range(2_000)}
    )
    table = pa.concat_tables([part, part.slice(0, 500)])
    at = np.random.default_rng(1).integers(0, table.num_rows, 3_000)
    found = take_rows(table, at)
    assert found.equals(table.take(pa.array(at)))
    assert found.schema.equals(table.schema)
    assert (found.column("text").num_chunks > 1) == (most < 1 << 31)
    assert take_rows(table, np.zeros(0, np.int64)).num_rows == 0
