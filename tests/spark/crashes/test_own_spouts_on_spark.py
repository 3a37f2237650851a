"""Spouts that users write, on Spark and on both engines in turn, with runs that end early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.tools import run, with_batches_that_fail
from tests.topologies.sources.test_own_spouts import Numbers, Queue, broken, rows_in, topology
from windbolt import RunOptions, run_local
from windowing import SpoutError

pytestmark = pytest.mark.usefixtures("spark")


class Broken(Numbers):
    def read(self, offset: Any, limit: int) -> Any:
        return broken()


def test_engines_take_turns_and_no_row_is_lost_or_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_local(topology(Numbers(Queue()), tmp_path / "right")[0])
    queue, out, checkpoint = Queue(), tmp_path / "out", tmp_path / "ck"
    with_batches_that_fail(monkeypatch, 2, 4)  # on Spark before the third is done, locally before the fourth
    with pytest.raises(OSError, match="lost"):
        run(topology(Numbers(queue), out)[0], checkpoint)
    assert queue.called.count("open") == queue.called.count("close") == 1
    with pytest.raises(OSError, match="lost"):
        run_local(topology(Numbers(queue), out)[0], RunOptions(str(checkpoint)))
    with pytest.raises(SpoutError, match=r"KeyError: 'price' at .*test_own_spouts.py:\d+, in broken"):
        run(topology(Broken(queue), out)[0], checkpoint)
    summary = run(topology(Numbers(queue), out)[0], checkpoint)
    assert (summary.rows, summary.batches) == (20, 5)  # the last one closes the windows
    assert rows_in(out) == rows_in(tmp_path / "right")
    assert not queue.rows
