"""A run that starts at an output: the same on Spark as in this process, and the checkpoint remembers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.examples import sampled
from tests.spark.shop import shop_in_files, shop_in_memory, write_orders
from tests.spark.tools import at_phase, file_rows, memory_rows, run, run_until
from topologies.run.summary import Summary
from windbolt import RunOptions, run_local
from windowing.errors import CheckpointError

pytestmark = pytest.mark.usefixtures("spark")
FIRST = "2024-05-01T12:01:00Z"


def left_out(summary: Summary) -> tuple[int, int]:
    assert summary.last is not None
    revenue = summary.last.bolts["revenue"]
    return revenue.skipped, revenue.suppressed


def test_it_is_that_of_a_local_run(orders: Path, tmp_path: Path) -> None:
    topology, out = shop_in_memory(orders)
    there = run_local(topology, RunOptions(first_output=FIRST))
    expected = memory_rows(out)
    topology, out = shop_in_memory(orders)
    here = run(topology, tmp_path / "ck", first_output=FIRST)
    assert memory_rows(out) == expected
    assert here.last is not None
    assert there.last is not None
    assert here.last.bolts == there.last.bolts
    assert all(count > 0 for count in left_out(here))


@pytest.mark.feature("AZ-13")
@pytest.mark.parametrize("crash", sampled([(0, "commit"), (0, "ingest"), (1, "committed")], 3))
def test_a_restart_goes_on_with_it(orders: Path, tmp_path: Path, crash: tuple[int, str]) -> None:
    batch, phase = crash
    whole = run(shop_in_files(orders, tmp_path / "whole"), tmp_path / "whole/ck", first_output=FIRST)
    topology = shop_in_files(orders, tmp_path / "cut")
    run_until(topology, tmp_path / "cut/ck", at_phase(batch, phase), first_output=FIRST)
    again = run(topology, tmp_path / "cut/ck")
    assert left_out(again) == left_out(whole)
    for sink in ("revenue", "late", "best"):
        assert file_rows(tmp_path / "cut" / sink) == file_rows(tmp_path / "whole" / sink)
    write_orders(orders, range(3, 4))
    assert run(topology, tmp_path / "cut/ck", first_output="2024-05-01T13:01:00+01:00").rows > 0, "the same moment"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("begun", "said"), [(None, "it was begun without one"), (FIRST, "begun with the one at 2024-05-01T12:01:00Z")]
)
def test_another_one_is_refused_on_a_checkpoint(orders: Path, tmp_path: Path, begun: str | None, said: str) -> None:
    topology, _ = shop_in_memory(orders)
    run(topology, tmp_path / "ck", first_output=begun, keep_open=True)
    with pytest.raises(CheckpointError) as raised:
        run(topology, tmp_path / "ck", first_output="2024-05-01T12:02:00Z")
    assert said in str(raised.value)
    assert "leave it out to continue as before" in str(raised.value)
    assert run(topology, tmp_path / "ck").last is not None, "nothing has been spoilt"
