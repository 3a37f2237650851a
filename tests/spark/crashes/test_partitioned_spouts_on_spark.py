"""Spouts of partitions on Spark and on both engines in turn: tasks read ranges, also again after a crash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.spark.tools import run, with_batches_that_fail
from tests.topologies.sources.test_own_spouts import rows_in
from tests.topologies.sources.test_partitioned_spouts import Parts, broken, expected, numbers_in, plain, topology
from windbolt import RunOptions, run_local
from windowing import SpoutError
from windowing.errors import WindboltError

pytestmark = pytest.mark.usefixtures("spark")

SIZES = {"a": 23, "b": 11, "ü c": 17}


class Broken(Parts):
    def read(self, partition: str, start: Any, end: Any) -> Any:
        return broken()


class Elsewhere(Parts):
    """Is read in tasks alone: not in the process that starts the run."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__(sizes, "lists")
        self.driver = os.getpid()

    def read(self, partition: str, start: Any, end: Any) -> Any:
        assert os.getpid() != self.driver
        return super().read(partition, start, end)


class Held(Parts):
    def __init__(self) -> None:
        super().__init__(SIZES)
        self.lines = (line for line in "ab")


def test_engines_take_turns_and_no_row_is_lost_or_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_local(topology(Parts(SIZES), tmp_path / "right")[0])
    out, checkpoint = tmp_path / "out", tmp_path / "ck"
    spout = Parts(SIZES, "texts")
    with_batches_that_fail(monkeypatch, 2, 4)  # on Spark before the third is done, locally before the fourth
    with pytest.raises(OSError, match="lost"):
        run(topology(spout, out)[0], checkpoint)
    with pytest.raises(OSError, match="lost"):
        run_local(topology(spout, out)[0], RunOptions(str(checkpoint)))
    with pytest.raises(SpoutError, match=r"read\('a', .*KeyError: 'price' at .*test_partitioned_spouts.py:\d+, in br"):
        run(topology(Broken(SIZES, "texts"), out)[0], checkpoint)
    run(topology(spout, out)[0], checkpoint)
    assert rows_in(out) == rows_in(tmp_path / "right")
    assert spout.acknowledged == SIZES


@pytest.mark.parametrize("tasks", ["pool", "spark"])
def test_tasks_read_them_whoever_runs_these(tasks: str, spark: Any, tmp_path: Path) -> None:
    sizes = {f"p{number}": number for number in range(20)}
    spark.conf.set("spark.windbolt.tasks", tasks)
    try:
        summary = run(plain(Elsewhere(sizes), tmp_path / "out"), tmp_path / "ck")
    finally:
        spark.conf.unset("spark.windbolt.tasks")
    assert summary.rows == sum(sizes.values())
    assert numbers_in(tmp_path / "out") == expected(sizes)


def test_what_cannot_be_sent_to_tasks_is_told(tmp_path: Path) -> None:
    with pytest.raises(WindboltError, match=r"Held holds .*what cannot be sent.*the spout's open\(\)"):
        run(plain(Held(), tmp_path / "out"), tmp_path / "ck")
