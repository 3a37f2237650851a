"""The table of formats and options in docs/files.md, on Spark: the tests of its cells that others run without Spark."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests import formats_table
from tests.helpers.examples import sampled
from tests.spark.tools import run
from tests.topologies.io import test_formats_table as cells

pytestmark = pytest.mark.usefixtures("spark")
READ = [each for each in cells.CELLS if "r" in formats_table.cell(*each)]
WRITTEN = [each for each in cells.CELLS if "w" in formats_table.cell(*each)]


@pytest.fixture(autouse=True)
def _on_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkpoints = (tmp_path / f"checkpoint {number}" for number in count())
    monkeypatch.setattr(cells, "run_local", lambda topology: run(topology, next(checkpoints)))


@pytest.mark.parametrize("cell", sampled(READ, 6, "=".join))
def test_an_option_is_read(cell: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    option, kind = cell
    cells.CASES[option](tmp_path / "in", kind)


@pytest.mark.parametrize("cell", sampled(WRITTEN, 5, "=".join, first=3))
def test_an_option_is_written(cell: tuple[str, str], tmp_path: Path) -> None:
    cells.test_an_option_is_written(tmp_path, *cell)
