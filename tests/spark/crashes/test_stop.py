"""Runs that last until they are stopped: time moves without input, and a stop loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest

from servers.processes import tree
from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from tests.spark.shop import SCHEMA, Spans, at, shop_in_files, shop_in_memory, write_orders
from tests.spark.tools import CONF, drafts, file_rows, memory_rows, run
from topologies.engine.report import BatchReport
from topologies.io.sinks import MemorySink
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import millis

pytestmark = pytest.mark.usefixtures("spark")


def by_the_clock(length: str = "1s") -> tuple[Topology, MemorySink]:
    builder, sink = TopologyBuilder("clock"), sinks.memory()
    builder.set_spout("orders", spouts.memory(SCHEMA, [("a", 1.0, at(1))] * 3))
    builder.set_bolt("spans", Spans().with_tumbling_window(length)).global_grouping("orders")
    builder.set_sink("out", sink).from_("spans")
    return builder.build(), sink


def test_a_window_by_the_clock_fires_on_a_quiet_stream_and_a_later_run_goes_on(tmp_path: Path) -> None:
    topology, sink = by_the_clock()
    stop, reports = threading.Event(), list[BatchReport]()

    def watch(report: BatchReport) -> None:
        reports.append(report)
        if report.bolts["spans"].fired or len(reports) > 200:
            stop.set()

    summary = run(topology, tmp_path / "checkpoint", every=millis(200), stop=stop, on_report=watch)
    assert summary.stopped
    assert [row["events"] for row in sink.rows] == [3]
    assert [report.rows for report in reports if report.rows] == [3]
    assert len(reports) > 1, "the window fired in a batch without input"

    topology, sink = by_the_clock()
    assert run(topology, tmp_path / "checkpoint").rows == 0
    assert sink.rows == []


def test_a_run_is_stopped_from_another_thread_and_goes_on(orders: Path, tmp_path: Path) -> None:
    run(shop_in_files(orders, tmp_path / "whole"), tmp_path / "whole/checkpoint")
    stop, begun = threading.Event(), threading.Event()

    def stopper() -> None:
        assert begun.wait(300)
        stop.set()

    thread = threading.Thread(target=stopper)
    thread.start()
    broken = tmp_path / "broken"
    first = run(
        shop_in_files(orders, broken),
        broken / "checkpoint",
        every=millis(100),
        stop=stop,
        on_report=lambda report: begun.set(),
    )
    thread.join(60)
    assert first.stopped
    second = run(shop_in_files(orders, broken), broken / "checkpoint")
    assert not second.stopped
    assert first.rows + second.rows == 180
    for name in ("revenue", "late", "best"):
        assert file_rows(broken / name) == file_rows(tmp_path / "whole" / name)
        assert drafts(broken / name) == []


def test_a_run_that_is_stopped_before_it_begins_reads_nothing(orders: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    topology, out = shop_in_memory(orders)
    summary = run(topology, tmp_path / "checkpoint", stop=stop)
    assert (summary.stopped, summary.rows) == (True, 0)
    assert run(topology, tmp_path / "checkpoint").rows == 180
    assert all(memory_rows(out).values())


def to_driver(driver: int, number: int) -> None:
    os.kill(driver, number)


def to_all(driver: int, number: int) -> None:
    """As systemd does it, whatever sessions and groups there are; ``timeout`` and terminals reach fewer."""
    for process in [driver, *descendants(driver)]:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def descendants(process: int) -> list[int]:
    """The children of a process, and theirs; except for Spark's daemon of Python workers, which ends at SIGTERM."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text("utf-8").rpartition(") ")[2].split()[1])
            words = (path / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == process and b"-m\0topologies.spark.workers.daemon" not in words:
            found += [int(path.name), *descendants(int(path.name))]
    return found


@contextmanager
def command(tmp_path: Path, orders: Path, out: Path, within: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """``windbolt run`` of the shop, until it is stopped, in a process group of its own; started by ``within``."""
    script = tmp_path / "shop_topology.py"
    script.write_text(
        "from pathlib import Path\n"
        "from tests.spark.shop import shop_in_files\n"
        f"topology = shop_in_files(Path({str(orders)!r}), Path({str(out)!r}))\n"
    )
    words = [*within, sys.executable, "-c", "from topologies.cli.app import main; main()", "run", f"{script}:topology"]
    words += ["--checkpoint", str(out / "checkpoint"), "--every", "100ms", "--json", "--master", "local[2]"]
    words += [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with (
        open(tmp_path / "said", "w+", encoding="utf-8") as said,
        subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True, env={**os.environ, "PYTHONPATH": paths},
            process_group=0,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


SENT = [
    (signal.SIGTERM, "driver"),
    (signal.SIGINT, "group"),  # as a terminal does it
    (signal.SIGTERM, "all"),  # as systemd does it
]


@pytest.mark.parametrize("sent", sampled(SENT, 3, lambda sent: f"{sent[0].name}-{sent[1]}"))
def test_a_signal_ends_the_command_after_the_batch_in_hand(sent: tuple[signal.Signals, str], tmp_path: Path) -> None:
    number, to = sent
    send = {"driver": to_driver, "group": os.killpg, "all": to_all}[to]
    orders, half = tmp_path / "orders", tmp_path / "half"
    write_orders(orders, range(4))
    write_orders(half, range(2))
    run(shop_in_files(orders, tmp_path / "whole"), tmp_path / "whole/checkpoint")

    out = tmp_path / "out"
    with command(tmp_path, half, out) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        send(process.pid, number)
        rest = process.stdout.readlines()
        status = process.wait(300)
    assert status == 0, (tmp_path / "said").read_text("utf-8")
    assert json.loads(first)["batch"] == 0
    summary = json.loads(rest[-1])
    assert summary["summary"]
    assert summary["stopped"]

    write_orders(half, range(2, 4))
    run(shop_in_files(half, out), out / "checkpoint")
    for name in ("revenue", "late", "best"):
        # Not the same files: one that Spark's source had noted, but planned no batch for, joins the next one's batch.
        assert file_rows(out / name) == file_rows(tmp_path / "whole" / name) != []
        assert drafts(out / name) == []


def as_first_process() -> list[str]:
    """How a process becomes the first one of its namespace, as that of a container is; skips where nobody may."""
    for user in ([], ["--user", "--map-root-user"]):
        within = ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]
        with suppress(OSError):
            if subprocess.run([*within, "true"], capture_output=True, check=False).returncode == 0:
                return within
    pytest.skip("namespaces of processes are not allowed here")


def only_child(process: int) -> int:
    """The child of unshare, by its number outside."""
    (child,) = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()
    return int(child)


@pytest.mark.extended
def test_the_first_process_of_a_container_stops_cleanly_at_sigterm(tmp_path: Path) -> None:
    orders, out = tmp_path / "orders", tmp_path / "out"
    write_orders(orders, range(2))
    with command(tmp_path, orders, out, as_first_process()) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.kill(only_child(process.pid), signal.SIGTERM)
        rest = process.stdout.readlines()
        status = process.wait(300)
    assert status == 0, (tmp_path / "said").read_text("utf-8")
    assert json.loads(first)["batch"] == 0
    assert json.loads(rest[-1])["stopped"]
    run(shop_in_files(orders, out), out / "checkpoint")
    assert drafts(out / "revenue") == []


@pytest.mark.extended
def test_the_first_process_of_a_container_ends_at_sigterm_before_its_run(tmp_path: Path) -> None:
    """While the topology is loaded nobody handles the signal yet, and the kernel would drop it."""
    script = tmp_path / "slow.py"
    script.write_text("import time\nprint('loading', flush=True)\ntime.sleep(600)\n")
    words = [*as_first_process(), sys.executable, "-c", "from topologies.cli.app import main; main()"]
    words += ["run", f"{script}:topology", "--engine", "local"]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "loading\n"
            os.kill(only_child(process.pid), signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_a_java_that_is_killed_is_told_of_in_three_lines(orders: Path, tmp_path: Path) -> None:
    with command(tmp_path, orders, tmp_path / "out") as process:
        assert process.stdout is not None
        process.stdout.readline()
        (java,) = tree(process.pid, "java")
        java.kill()
        process.stdout.readlines()
        status = process.wait(300)
    *before, what, why, do, ends = (tmp_path / "said").read_text("utf-8").splitlines()
    others = [line for line in before if not line.lower().startswith("warning: ")]  # of Java's start, and of the data
    assert others == []
    assert what == "error: Java was killed (SIGKILL) in the middle of the run"
    assert why.startswith("  why: somebody did that, or the system, for want of memory")
    assert do.startswith("  do:  rerun: the current batch was not committed")
    assert ends == "  exit: 75, may pass by itself: start it again, or use --restart"
    assert status == 75
    run(shop_in_files(orders, tmp_path / "out"), tmp_path / "out/checkpoint")


INTERRUPTED = """
import os, signal, sys, time
from pathlib import Path
from windbolt import RunOptions, TopologyBuilder, run_on_spark, sinks, spouts
from tests.spark.tools import CONF
from windowing import Bolt

class Endless(Bolt):
    outputs = "number long"

    def execute(self, row):
        os.kill(driver, signal.SIGINT)
        while True:
            time.sleep(0.01)

driver = os.getpid()
builder = TopologyBuilder("endless")
builder.set_spout("numbers", spouts.memory("number long", [(1,)]))
builder.set_bolt("endless", Endless()).shuffle_grouping("numbers")
builder.set_sink("out", sinks.console()).from_("endless")
try:
    run_on_spark(builder.build(), RunOptions(sys.argv[1]), master="local[2]", conf=CONF)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.extended
def test_an_interrupt_in_a_program_of_ones_own_breaks_off_the_batch_in_hand(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "checkpoint")],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_times_are_those_of_the_clock(tmp_path: Path) -> None:
    topology, sink = by_the_clock("1h")
    run(topology, tmp_path / "checkpoint")
    (row,) = sink.rows
    assert isinstance(row["until"], datetime)
    assert (row["until"].minute, row["until"].second) == (0, 0)
