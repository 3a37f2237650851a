"""A run that is started again after failures that pass: nothing is lost or doubled, and what does not pass ends it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
import typer
from typer.testing import CliRunner

from manager.storage import object_store
from servers.s3 import S3
from tests.helpers.races import alone, published, topology, write_input
from tests.helpers.scraping import free_port, get, health, scrape, value
from topologies.background import RunPhase
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.topology_fit import read_runs
from topologies.cli.app import app
from topologies.cli.consoles import readable_errors
from topologies.local import run_local
from topologies.run.options import ComingRestart, Restart, RunOptions
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import AggregateBolt, TopologyBuilder, WindowedBolt, seconds, sinks, spouts
from windbolt.aggregates import sum, window_end
from windowing.errors import BoltError, ConfigError, SinkError, TakenOver

AT_ONCE = Restart(attempts=3, initial_backoff="1ms", max_backoff="2ms")
FOR_EVER = Restart(attempts=3, initial_backoff="1h", max_backoff="1h")


class Flaky:
    """A function of a sink, to which the other side does not answer at some calls."""

    def __init__(self, *failing: int, error: Callable[[str], Exception] = ConnectionRefusedError) -> None:
        self.failing, self.error, self.calls = failing, error, 0
        self.written: dict[int, list[tuple[str, float]]] = {}
        """By batch, as the other side has it."""

    def __call__(self, rows: pa.Table, batch: int) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise self.error("nobody")
        self.written[batch] = [(row["user"], row["total"]) for row in rows.to_pylist()]


def written_by(folder: Path, function: Flaky) -> Topology:
    """Sums by key, a batch of each of three files, into a function."""
    folder.mkdir(exist_ok=True)
    write_input(str(folder))
    builder = TopologyBuilder("written")
    schema = "user string, amount double, ts timestamp"
    builder.set_spout("in", spouts.files(f"{folder}/*.jsonl", schema=schema, files_per_batch=1))
    sums = AggregateBolt(by="user", total=sum("amount"), until=window_end())
    bolt = sums.with_window(seconds(10)).with_timestamp_field("ts")
    builder.set_bolt("sums", bolt, parallelism=2).fields_grouping("in", "user")
    builder.set_sink("out", sinks.foreach_batch(function, frame="arrow")).from_("sums")
    return builder.build()


def run(made: Topology, checkpoint: Path, restart: Restart | None = AT_ONCE, **options: Any) -> Summary:
    return run_local(made, RunOptions(str(checkpoint), restart=restart, **options))


# --- how often, and after which pauses


def test_pauses_double_up_to_the_longest() -> None:
    policy = Restart(attempts=5, initial_backoff="1s", max_backoff="5s")
    assert [policy.seconds_before(restart) for restart in (1, 2, 3, 4, 500)] == [1, 2, 4, 5, 5]


def test_what_cannot_be_a_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="attempts=0"):
        Restart(attempts=0)
    with pytest.raises(ConfigError, match="max_backoff='1s' with initial_backoff='2s'"):
        Restart(initial_backoff="2s", max_backoff="1s")
    with pytest.raises(ConfigError, match="restarts without a checkpoint"):
        RunOptions(restart=Restart())


# --- what passes


def test_a_sink_that_is_away_for_a_while_gets_each_batch(tmp_path: Path) -> None:
    calm, flaky = Flaky(), Flaky(1, 2, 4)
    run(written_by(tmp_path / "in", calm), tmp_path / "calm")
    coming: list[ComingRestart] = []
    summary = run(written_by(tmp_path / "in", flaky), tmp_path / "ck", on_restart=coming.append)
    assert flaky.written == calm.written
    assert [(each.restarts, each.in_a_row, each.most) for each in coming] == [(1, 1, 3), (2, 2, 3), (3, 1, 3)]
    assert all(0 < each.seconds < 0.01 for each in coming)
    assert (summary.restarts, summary.batches, summary.rows) == (3, 4, 36)
    assert summary.this_run()["sums"].accounts["windowed"] == 36
    assert summary.to_json()["restarts"] == 3


def test_a_bolt_that_finds_nobody_is_called_again_and_one_that_is_wrong_is_not(tmp_path: Path) -> None:
    for error, restarts in [(TimeoutError("nobody"), True), (ZeroDivisionError("wrong"), False)]:
        seen: list[ComingRestart] = []
        with pytest.raises(BoltError, match=str(error)):
            run(failing_bolt(tmp_path, error), tmp_path / f"ck{restarts}", on_restart=seen.append)
        assert len(seen) == (AT_ONCE.attempts if restarts else 0)


def failing_bolt(folder: Path, error: Exception) -> Topology:
    class Asks(WindowedBolt):
        outputs = "n long"

        def execute(self, window: object) -> None:
            raise error

    (folder / "in").mkdir(exist_ok=True)
    write_input(str(folder / "in"))
    builder = TopologyBuilder("asks")
    builder.set_spout("in", spouts.files(f"{folder}/in/*.jsonl", schema="user string, ts timestamp"))
    builder.set_bolt("asks", Asks().with_window(seconds(10)).with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("asks")
    return builder.build()


def test_restarts_without_progress_have_a_limit(tmp_path: Path) -> None:
    coming: list[ComingRestart] = []
    flaky = Flaky(*range(2, 100))
    with pytest.raises(SinkError, match="ConnectionRefusedError: nobody at "):
        run(written_by(tmp_path / "in", flaky), tmp_path / "ck", on_restart=coming.append)
    assert [each.in_a_row for each in coming] == [1, 2, 3]
    assert len(flaky.written) == 1


def test_a_run_without_restarts_ends_with_its_first_failure(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="ConnectionRefusedError: nobody at "):
        run(written_by(tmp_path / "in", Flaky(2)), tmp_path / "ck", None)


def test_a_run_that_is_stopped_in_a_pause_ends_cleanly_and_the_next_goes_on(tmp_path: Path) -> None:
    calm, flaky = Flaky(), Flaky(2)
    run(written_by(tmp_path / "in", calm), tmp_path / "calm")
    made, stop = written_by(tmp_path / "in", flaky), threading.Event()
    summary = run(made, tmp_path / "ck", FOR_EVER, stop=stop, on_restart=lambda coming: stop.set())
    assert (summary.stopped, summary.restarts) == (True, 1)
    run(made, tmp_path / "ck", None)
    assert flaky.written == calm.written


# --- who can see it


def test_all_attempts_are_one_run_in_the_list_of_runs(tmp_path: Path) -> None:
    made = written_by(tmp_path / "in", Flaky(2, 3))
    notes = []

    def look(coming: ComingRestart) -> None:
        notes.append(read_runs(PairedCheckpoint(str(tmp_path / "ck")).documents))

    run(made, tmp_path / "ck", on_restart=look)
    (after_one,), (after_two,) = notes
    assert (after_one.how, after_one.restarts) == ("restarting", 0)
    assert "'out' failed, in batch 1. ConnectionRefusedError: nobody at" in str(after_one.error)
    assert (after_two.how, after_two.restarts) == ("restarting", 1)
    (last,) = read_runs(PairedCheckpoint(str(tmp_path / "ck")).documents)
    assert (last.how, last.restarts, last.error, last.run) == ("finished", 2, None, after_one.run)
    assert last.began == after_one.began


def test_status_metrics_health_and_page_tell_of_restarts(tmp_path: Path) -> None:
    made = written_by(tmp_path / "in", Flaky(2))
    with free_port() as port:
        place = {"serve_metrics": port, "serve_page": port}
        started = made.start(str(tmp_path / "ck"), engine="local", restart=FOR_EVER, **place)  # type: ignore[arg-type]
        while started.status.phase is not RunPhase.RESTARTING:
            assert not started.end_within(0.01)
        status = started.status
        assert (status.restarts, started.failure) == (1, None)
        assert "'out' failed, in batch 1. ConnectionRefusedError: nobody at" in str(status.error)
        assert "1 restart" in str(status)
        found = scrape(port)
        assert value(found, "windbolt_restarts_total", topology="written") == 1
        assert value(found, "windbolt_run_healthy", topology="written") == 1
        answered, told = health(port)
        of_run = told["topologies"]["written"]
        assert (answered, of_run["state"], of_run["restarts"]) == (200, "restarting", 1)
        assert get(port, "/ready")[0] == 503
        (shown, *_) = json.loads(get(port, "/state?")[2])["runs"]
        assert (shown["how"], shown["restarts"]) == ("restarting", 1)
        assert "ConnectionRefusedError: nobody at" in shown["error"]
        assert started.stop().stopped
        assert started.status.error is None


# --- a store


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("in")
    write_input(str(folder))
    return str(folder)


def impatient(store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let its clients ask once, and not for minutes."""
    once = pafs.AwsStandardS3RetryStrategy(max_attempts=1)
    asking = pafs.S3FileSystem(
        scheme="http", endpoint_override=store.address, region="us-east-1", retry_strategy=once, allow_delayed_open=True
    )
    monkeypatch.setattr(
        object_store, "_open_filesystem", lambda uri, process: (asking, uri.removeprefix("s3://").partition("?")[0])
    )
    monkeypatch.setattr(object_store, "_RETRIES", {"max_retries": 0})
    object_store._store.cache_clear()


@pytest.mark.extended
@pytest.mark.parametrize("how", ["503", "lost"])
def test_a_store_that_fails_for_a_while(store: S3, files: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than its clients try by themselves. ``lost``: requests are done, and no answer comes."""
    expected = alone(store, files, f"calm-{how}")
    impatient(store, monkeypatch)
    steps: list[int] = []
    coming: list[ComingRestart] = []

    def note(report: object) -> None:
        steps.append(report.batch)  # type: ignore[attr-defined]
        if len(steps) == 1:
            store.fail(1, how)

    def heal(restart: ComingRestart) -> None:
        coming.append(restart)
        if restart.in_a_row == 2:
            store.fail()

    options = RunOptions(store.uri(f"while-{how}/ck"), restart=AT_ONCE, on_report=note, on_restart=heal)
    try:
        summary = run_local(topology(files, store.uri(f"while-{how}/out")), options)
    finally:
        store.fail()
        object_store._store.cache_clear()
    assert published(store, f"while-{how}/out") == expected
    assert steps == [0, 1, 2, 2]
    assert summary.restarts == len(coming) == 2


@pytest.mark.extended
def test_a_run_that_has_lost_its_checkpoint_does_not_take_it_back(store: S3, files: str) -> None:
    made, place = topology(files, store.uri("lost/out")), store.uri("lost/ck")
    seen: list[int] = []

    def fail_once(report: object) -> None:
        seen.append(1)
        if len(seen) == 1:
            raise ConnectionResetError("for a moment")

    def another_comes(coming: ComingRestart) -> None:
        run_local(made, RunOptions(place))

    with pytest.raises(TakenOver, match="has been taken over by process"):
        run_local(made, RunOptions(place, restart=AT_ONCE, on_report=fail_once, on_restart=another_comes))
    assert len(seen) == 1
    assert published(store, "lost/out") == alone(store, files, "lost-alone")


# --- the command


def command(folder: Path, error: str, *more: str) -> tuple[int, str]:
    (folder / "in").mkdir(exist_ok=True)
    write_input(str(folder / "in"))
    (folder / "shop.py").write_text(
        "from windbolt import *\n"
        "class Asks(WindowedBolt):\n"
        "    outputs = 'n long'\n"
        "    def execute(self, window):\n"
        f"        {error}\n"
        "        yield (len(window.table),)\n"
        "builder = TopologyBuilder('asks')\n"
        f"spout = spouts.files('{folder}/in/*.jsonl', schema='user string, ts timestamp')\n"
        "builder.set_spout('in', spout)\n"
        "builder.set_bolt('asks', Asks().with_window('10s').with_timestamp_field('ts')).global_grouping('in')\n"
        "builder.set_sink('out', sinks.memory()).from_('asks')\n"
        "topology = builder.build()\n"
    )
    given = ["run", f"{folder}/shop.py:topology", "--engine", "local", "--checkpoint", f"{folder}/ck", *more]
    result = CliRunner().invoke(app, given)
    return result.exit_code, result.stderr


RESTART = ("--restart", "--restart-attempts", "2", "--restart-max-backoff", "1ms")


def test_the_command_starts_again_and_says_so_and_what_its_end_means(tmp_path: Path) -> None:
    status, told = command(tmp_path, "raise ConnectionError('nobody')", *RESTART)
    assert status == 75
    lines = told.splitlines()
    assert lines[0].startswith("warning: restarting in 0.0 s (1 of at most 2 without a batch): bolt 'asks' failed")
    assert lines[1].startswith("warning: restarting in 0.0 s (2 of at most 2 without a batch): bolt 'asks' failed")
    assert lines[-1] == "  exit: 75, may pass by itself: start it again, or use --restart"
    status, told = command(tmp_path, "pass", *RESTART)
    assert status == 0, told


def test_a_defect_ends_the_command_at_once(tmp_path: Path) -> None:
    status, told = command(tmp_path, "raise ValueError('wrong')", *RESTART)
    assert status == 1
    assert "restarting" not in told
    assert told.splitlines()[-1] == "  exit: 1, failed: a restart alone does not help"


def test_a_refused_checkpoint_ends_the_command_at_once(tmp_path: Path) -> None:
    (tmp_path / "ck").write_text("no folder")
    status, told = command(tmp_path, "pass", *RESTART)
    assert status == 2
    assert told.splitlines()[-1] == "  exit: 2, refused: a restart alone does not help"


def test_without_restarts_a_failure_that_passes_has_its_status_too(tmp_path: Path) -> None:
    status, told = command(tmp_path, "raise TimeoutError('nobody')")
    assert status == 75
    assert told.count("exit: 75") == 1
    assert "restarting" not in told


def test_a_checkpoint_that_was_taken_over_has_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise TakenOver("checkpoint b/ck has been taken over by process 7 on b at 2024-01-01T00:00:00Z")

    monkeypatch.setattr("topologies.cli.run.run_watched", lambda *_, **__: lost())
    status, told = command(tmp_path, "pass")
    assert status == 3
    assert told.splitlines()[-1] == "  exit: 3, taken over by another run: to be left to that"


def test_options_of_restarts_alone_are_refused(tmp_path: Path) -> None:
    status, told = command(tmp_path, "pass", "--restart-attempts", "2")
    assert status == 2
    assert "--restart-attempts without --restart" in told


@pytest.mark.parametrize(
    ("error", "status"),
    [(ConnectionRefusedError(111, "nobody"), 75), (BrokenPipeError(32, "gone"), 1), (KeyError(), 1)],
)
def test_an_error_that_is_not_windbolts_own_has_the_status_of_its_kind(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((typer.Exit, type(error))) as caught, readable_errors(debug=False, restart=True):
        raise error
    assert getattr(caught.value, "exit_code", 1) == status
    told = capsys.readouterr().err
    assert told.endswith("exit: 75, may pass by itself: start it again, or use --restart\n") == (status == 75)
    assert ("ConnectionRefusedError: [Errno 111] nobody" in told) == (status == 75)
