"""What rows and places of ``windbolt.testing`` may be, where they come from pandas and NumPy; and what they may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from windbolt import WindowedBolt, aggregates, seconds
from windbolt.testing import make_window, run_bolt
from windowing.errors import ConfigError, SchemaError


class Ids(WindowedBolt):
    outputs = "ids array<long>"

    def execute(self, window: Any) -> Any:
        yield (window.table.column("id").to_pylist(),)


@pytest.mark.parametrize("new", [[False, True], [1, 1], [0.0], ["0"]])
def test_places_of_new_rows_are_whole_numbers_each_once(new: Any) -> None:
    with pytest.raises(ConfigError, match="give the positions of the new rows"):
        make_window([{"a": 1}, {"a": 2}], new=new)


def test_places_may_be_numpys() -> None:
    assert make_window([{"a": 1}, {"a": 2}], new=list(np.array([1]))).new.to_pylist() == [{"a": 2}]


def test_times_may_be_numpys_and_nat_is_none() -> None:
    bolt = Ids().with_tumbling_window(seconds(10)).with_timestamp_field("ts")
    rows = [{"id": 1, "ts": np.int64(1_000)}, {"id": 2, "ts": pd.NaT}]
    found = run_bolt(bolt, rows, "id long, ts timestamp")
    assert found.rows == [{"ids": [1]}]
    assert found.accounts["invalid"] == 1


def test_a_column_of_two_types_in_two_inputs_is_told() -> None:
    with pytest.raises(SchemaError, match="the inputs x, y have a column of different types"):
        make_window({"x": [{"a": 1}], "y": [{"a": "q"}]})


def test_an_edge_beyond_all_doubles_is_told() -> None:
    with pytest.raises(ConfigError, match="is not a finite number"):
        aggregates.histogram("a", [0, 10**400])
