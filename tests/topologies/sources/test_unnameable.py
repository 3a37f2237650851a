"""No file of the input is passed over for its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from topologies.engine.source_splits import refuse_undecodable_names
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing.errors import DataError


def topology(folder: Path, place: Path | str) -> Topology:
    builder = TopologyBuilder("copy")
    builder.set_spout("in", spouts.files(place, "x long", format="csv"))
    builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("in")
    return builder.build()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("x\n1\n")
    return tmp_path


def test_a_file_whose_name_is_no_text_is_refused_by_its_name(folder: Path) -> None:
    with open(os.fsencode(folder / "in") + b"/2\xff.csv", "wb") as odd:
        odd.write(b"x\n2\n")
    for place in (folder / "in", folder / "in/*.csv", folder / "in/{1,2}*.csv", f"file://{folder}/in"):
        with pytest.raises(DataError, match=r"2\\xff\.csv' cannot be read"):
            refuse_undecodable_names(topology(folder, place))
    refuse_undecodable_names(topology(folder, folder / "in/1*.csv"))
    with pytest.raises(DataError, match="not valid UTF-8"):
        run_local(topology(folder, folder / "in"))
    assert not (folder / "out").exists()
