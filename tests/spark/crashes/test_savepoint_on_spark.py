"""A savepoint is taken from one engine to the other, with input, sinks and checkpoint at another place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.damage import rows_of, topology
from tests.spark.crashes.test_change_of_engine import here, on_spark, write
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from windbolt import run_local

pytestmark = pytest.mark.usefixtures("spark")
FILES = 15


def test_engines_go_on_from_each_others_savepoints(tmp_path: Path) -> None:
    """Over a join of Spark's log, with windows open at each change."""
    place, reached = tmp_path / "0", 0
    for number, (engine, until) in enumerate([(here, 5), (on_spark, 12), (here, FILES)]):
        if number:
            before, place = place, tmp_path / f"{number} é%"
            place.mkdir()
            halves = PairedCheckpoint(str(before / "ck"))
            take_savepoint(halves, str(place / "ck"), [(str(before / "in"), str(place / "in"))])
            shutil.rmtree(before / "ck")
            (before / "in").rename(place / "in")
            shutil.copytree(before / "out", place / "out")
        place.mkdir(exist_ok=True)
        write(place / "in", range(reached, until))
        summary = engine(topology(place / "in", place / "out"), place / "ck", keep_open=until != FILES)
        assert summary.batches == until - reached + (until == FILES), "no file is read again"
        reached = until
    write(tmp_path / "whole", range(FILES))
    run_local(topology(tmp_path / "whole", tmp_path / "whole-out"))
    assert rows_of(place / "out") == rows_of(tmp_path / "whole-out")
