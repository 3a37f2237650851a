"""Functions of users as sinks: when they are called, with what, and how they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from topologies.cli.app import app
from windbolt import SinkError, TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows


class Ends(WindowedBolt):
    outputs = "n long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return len(window), window.end


def test_a_function_sink_is_given_an_id_once_the_closing_too() -> None:
    called: list[int] = []
    builder = TopologyBuilder("ids")
    builder.set_spout("events", spouts.memory("ts timestamp", [(1_000_000,), (12_000_000,)], [(25_000_000,)]))
    builder.set_bolt("ends", Ends().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.foreach_batch(lambda frame, id: called.append(id), frame="arrow")).from_("ends")
    run_local(builder.build())
    assert called == sorted(set(called))
    assert len(called) == 3


@pytest.mark.parametrize("frame", ["arrow", "pandas"])
@pytest.mark.parametrize(
    ("raised", "said"),
    [(KeyError("gone"), "KeyError: 'gone' at "), (SystemExit(0), "SystemExit: 0 at "), (SystemExit(), "SystemExit: ")],
    ids=["an error", "the end of the process", "its end without a status"],
)
def test_a_function_that_fails_is_told_with_its_sink_its_batch_and_its_line(
    raised: BaseException, said: str, frame: Literal["arrow", "pandas"]
) -> None:
    def broken(rows: Any, batch: int) -> None:
        raise raised

    builder = TopologyBuilder("fails")
    builder.set_spout("events", spouts.memory("n long", [(1,)]))
    builder.set_sink("out", sinks.foreach_batch(broken, frame=frame)).from_("events")
    with pytest.raises(SinkError, match=r"the function of sink 'out' failed, in batch 0\. .*batch 0 was not") as error:
        run_local(builder.build())
    assert error.value.why.startswith(said)
    assert f"{__file__}:" in error.value.why
    assert error.value.why.endswith(", in broken")
    assert (error.value.sink, error.value.transient) == ("out", False)


def test_a_command_whose_sink_calls_exit_does_not_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving.py").write_text(
        "import sys\n"
        "from windbolt import TopologyBuilder, sinks, spouts\n\n"
        "builder = TopologyBuilder('leaving')\n"
        "builder.set_spout('events', spouts.memory('n long', [(1,)]))\n"
        "leave = sinks.foreach_batch(lambda rows, batch: sys.exit(), frame='arrow')\n"
        "builder.set_sink('out', leave).from_('events')\n"
        "topology = builder.build()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["run", "leaving.py:topology", "--engine", "local"]).exit_code == 1
