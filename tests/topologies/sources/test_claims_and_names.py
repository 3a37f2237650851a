"""Two runs never share a folder of output, and no file of the input is passed over for its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from topologies import TopologyBuilder, run_local, sinks, spouts
from topologies.engine.commit.claims import Claims
from topologies.graph.model import Topology
from topologies.run.options import RunOptions
from topologies.sources.unnameable import refuse_unnameable
from windowing.errors import ConfigError, DataError


def topology(folder: Path, pattern: str = "in") -> Topology:
    builder = TopologyBuilder("copy")
    builder.set_spout("in", spouts.files(folder / pattern, "x long", format="csv"))
    builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("in")
    return builder.build()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("x\n1\n")
    return tmp_path


def test_a_folder_of_output_belongs_to_one_run_at_a_time(folder: Path) -> None:
    refused: list[str] = []

    def meanwhile(report: object) -> None:
        with pytest.raises(ConfigError, match="another run is writing into") as error:
            run_local(topology(folder))
        refused.append(str(error.value))

    run_local(topology(folder), RunOptions(on_report=meanwhile))
    assert len(refused) == 2
    assert [path.read_text() for path in (folder / "out").iterdir()] == ['{"x":1}\n']
    Claims(topology(folder)).release()  # it is free again, and nothing of the claim is left


def test_a_claim_ends_with_its_process(folder: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tests.topologies.sources.test_claims_and_names import Claims, topology\n"
        "held = Claims(topology(Path(sys.argv[1])))\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    script = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(script, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another run"):
            Claims(topology(folder))
        other.kill()
    run_local(topology(folder))


def test_a_file_whose_name_is_no_text_is_refused_by_its_name(folder: Path) -> None:
    with open(os.fsencode(folder / "in") + b"/2\xff.csv", "wb") as odd:
        odd.write(b"x\n2\n")
    for pattern in ("in", "in/*.csv", "in/{1,2}*.csv", f"file://{folder}/in"):
        with pytest.raises(DataError, match=r"2\\xff\.csv' cannot be read"):
            refuse_unnameable(topology(folder, pattern) if "://" not in pattern else _by_uri(folder, pattern))
    refuse_unnameable(topology(folder, "in/1*.csv"))
    with pytest.raises(DataError, match="no UTF-8"):
        run_local(topology(folder))
    assert not (folder / "out").exists()


def _by_uri(folder: Path, uri: str) -> Topology:
    builder = TopologyBuilder("copy")
    builder.set_spout("in", spouts.files(uri, "x long", format="csv"))
    builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("in")
    return builder.build()


def test_java_may_be_able_to_write_less_than_utf_8(folder: Path) -> None:
    (folder / "in/ü.csv").write_text("x\n2\n")
    refuse_unnameable(topology(folder))
    with pytest.raises(DataError, match=r"ü\.csv' cannot be read.*C\.UTF-8"):
        refuse_unnameable(topology(folder), "ANSI_X3.4-1968")
