"""``windbolt run --ui``: the page is there while it runs, and afterwards only where somebody sits at a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from tests.topologies.page.shown import state
from topologies.cli.app import with_page_port

TOPOLOGY = """
from windbolt import AggregateBolt, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count

builder = TopologyBuilder("counting")
builder.set_spout("events", spouts.files("in/*.jsonl", schema="id string, ts timestamp"))
bolt = AggregateBolt(n=count()).with_tumbling_window("10s").with_timestamp_field("ts")
builder.set_bolt("count", bolt).global_grouping("events")
builder.set_sink("out", sinks.files("out", format="jsonl")).from_("count")
topology = builder.build()
"""


@pytest.fixture
def command(tmp_path: Path, port: int) -> list[str]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jsonl").write_text('{"id": "a", "ts": "2024-01-01T00:00:00Z"}\n')
    (tmp_path / "t.py").write_text(TOPOLOGY)
    return [sys.executable, "-m", "windbolt", "run", "t.py:topology", "--engine", "local", "--ui", str(port)]


def test_without_a_terminal_it_ends_with_the_run(command: list[str], tmp_path: Path, port: int) -> None:
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"http://127.0.0.1:{port}/  its page" in done.stderr


def read_until(terminal: int, words: str) -> str:
    """What a terminal shows up to these words, however its lines are wrapped."""
    shown = ""
    while words not in " ".join(shown.split()):
        assert select.select([terminal], [], [], 60)[0], f"nothing more came after: {shown}"
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


@pytest.mark.parametrize("spoiled", sampled([False, True], 2))
def test_on_a_terminal_it_stays_until_it_is_interrupted(
    command: list[str], tmp_path: Path, port: int, spoiled: bool
) -> None:
    if spoiled:
        (tmp_path / "t.py").write_text(TOPOLOGY.replace('"counting"', '"counting", on_invalid="stop"'))
        (tmp_path / "in/1.jsonl").write_text("broken\n")
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    try:
        shown = read_until(ours, "its page stays there")
        assert state(port)["now"]["state"] == ("failed" if spoiled else "finished")
        started.send_signal(signal.SIGINT)
        assert started.wait(300) == (1 if spoiled else 0), shown
    finally:
        started.kill()
        started.wait()
        os.close(ours)
        os.close(theirs)


def test_a_run_that_is_told_to_stop_does_not_stay(command: list[str], tmp_path: Path, port: int) -> None:
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [*command, "--checkpoint", "ck", "--every", "1s"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    try:
        for _ in range(3_000):
            try:
                if state(port)["points"]:
                    break
            except (URLError, AssertionError, ConnectionError):
                time.sleep(0.02)
        started.send_signal(signal.SIGTERM)
        assert "its page stays" not in read_until(ours, "Stopped cleanly")
        assert started.wait(300) == 0
    finally:
        started.kill()
        started.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["t.py:topology", "--ui"], ["t.py:topology", "--ui", "8765"]),
        (["--ui", "t.py:topology"], ["--ui", "8765", "t.py:topology"]),
        (["--ui", "--every", "1s"], ["--ui", "8765", "--every", "1s"]),
        (["--ui", "9000", "t.py:topology"], ["--ui", "9000", "t.py:topology"]),
        (["--ui", "[::1]:9000"], ["--ui", "[::1]:9000"]),
        (["--ui=0.0.0.0:9000", "t.py:topology"], ["--ui=0.0.0.0:9000", "t.py:topology"]),
        ([], []),
    ],
)
def test_the_port_may_be_left_out(given: list[str], meant: list[str]) -> None:
    assert with_page_port(given) == meant


@pytest.mark.extended
def test_a_checkpoint_is_shown_until_it_is_interrupted(command: list[str], tmp_path: Path, port: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([*command, "--checkpoint", "ck"], cwd=tmp_path, env=environment, capture_output=True, check=True)
    shows = [sys.executable, "-m", "windbolt", "ui", "ck", "--port", str(port)]
    with subprocess.Popen(shows, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            assert f"http://127.0.0.1:{port}/" in started.stderr.readline()
            seen = state(port)
            assert (seen["topology"], seen["now"]["state"]) == ("counting", "finished")
            started.send_signal(signal.SIGINT)
            assert started.wait(300) == 0
        finally:
            started.kill()
