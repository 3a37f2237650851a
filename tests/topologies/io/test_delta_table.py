"""The cookbook's sink into a table of Delta Lake: a batch that comes again is in the table once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.helpers.places import ROOT
from tests.helpers.races import FILES, write_input
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windbolt import AggregateBolt, SinkError, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count, sum, window_end

Append = Callable[[pa.Table, int], None]


def of_the_cookbook() -> Callable[[str, str], Append]:
    """``once``, as it stands on the page."""
    page = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
    found = re.search(r"^def once\(.*?^    return append$", page, flags=re.M | re.S)
    assert found is not None
    space: dict[str, Any] = {}
    exec("from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake\n" + found[0], space)
    return space["once"]


def topology(files: Path, append: Append) -> Topology:
    builder = TopologyBuilder("table")
    schema = "user string, amount double, ts timestamp"
    builder.set_spout("in", spouts.files(f"{files}/*.jsonl", schema=schema, files_per_batch=1))
    sums = AggregateBolt(by="user", n=count(), total=sum("amount"), until=window_end())
    builder.set_bolt("sums", sums.with_tumbling_window("10s").with_timestamp_field("ts")).fields_grouping("in", "user")
    builder.set_sink("out", sinks.foreach_batch(append, frame="arrow")).from_("sums")
    return builder.build()


def rows(table: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist())


@pytest.mark.parametrize("after", [True, False], ids=["after it wrote", "before it wrote"])
def test_a_batch_that_comes_again_is_in_the_table_once(after: bool, tmp_path: Path) -> None:
    once, files = of_the_cookbook(), tmp_path / "in"
    files.mkdir()
    write_input(str(files))
    run_local(topology(files, once(str(tmp_path / "calm"), "calm")), RunOptions(str(tmp_path / "ck-calm")))
    expected = rows(tmp_path / "calm")
    assert len(expected) == FILES * 5  # three users in the first ten seconds of a file, two in the last two

    append = once(str(tmp_path / "table"), "table")
    seen: list[int] = []

    def dies_at_first(found: pa.Table, batch: int) -> None:
        seen.append(batch)
        if after:
            append(found, batch)
        if seen.count(batch) == 1:
            raise RuntimeError("the process dies here")
        append(found, batch)

    again = RunOptions(str(tmp_path / "ck"))
    for _ in range(FILES + 1):  # each batch has due windows, and so has the closing
        with pytest.raises(SinkError, match="the process dies here"):
            run_local(topology(files, dies_at_first), again)
    run_local(topology(files, dies_at_first), again)
    assert len(seen) == 2 * len(set(seen)) > 2
    assert rows(tmp_path / "table") == expected
