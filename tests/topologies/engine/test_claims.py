"""Two runs never share a folder of output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from topologies.engine.commit import SinkLocks
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing.errors import ConfigError


def topology(folder: Path) -> Topology:
    builder = TopologyBuilder("copy")
    builder.set_spout("in", spouts.files(folder / "in", "x long", format="csv"))
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
    again = SinkLocks(topology(folder))
    again.take()
    again.release()  # it is free again, and nothing of the claim is left


def test_a_sink_in_memory_belongs_to_one_run_at_a_time(folder: Path) -> None:
    """The runs of one topology have one sink."""
    refused: list[str] = []

    def meanwhile(report: object) -> None:
        with pytest.raises(ConfigError, match=r"sink 'out': another run is writing into this sinks\.memory") as error:
            run_local(made, RunOptions(str(folder / "other")))
        refused.append(str(error.value))

    builder, out = TopologyBuilder("copy"), sinks.memory()
    builder.set_spout("in", spouts.files(folder / "in", "x long", format="csv"))
    builder.set_sink("out", out).from_("in")
    made = builder.build()
    for _ in range(2):
        run_local(made, RunOptions(on_report=meanwhile))
    assert len(refused) == 4
    assert out.rows == [{"x": 1}]


def test_a_claim_ends_with_its_process(folder: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tests.topologies.engine.test_claims import SinkLocks, topology\n"
        "held = SinkLocks(topology(Path(sys.argv[1])))\nheld.take()\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    script = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(script, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another run"):
            SinkLocks(topology(folder)).take()
        other.kill()
    run_local(topology(folder))


def test_only_runs_on_one_checkpoint_share_a_sink_in_memory() -> None:
    """A run may take over a checkpoint in a store from another one, which notices that at its next commit."""
    builder, sink = TopologyBuilder("memory"), sinks.memory()
    builder.set_spout("numbers", spouts.memory("n long"))
    builder.set_sink("out", sink).from_("numbers")
    built = builder.build()
    first, next_ = SinkLocks(built, "s3://bucket/ck"), SinkLocks(built, "s3://bucket/ck")
    first.take()
    next_.take()
    for other in (SinkLocks(built), SinkLocks(built, "s3://bucket/other")):
        with pytest.raises(ConfigError, match="another run is writing into this sinks"):
            other.take()
    first.release()
    next_.release()
    SinkLocks(built).take()
