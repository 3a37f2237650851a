"""The benchmark's own parts: its events, its answers, its tables. Nothing here takes a time, or starts Spark."""

from __future__ import annotations

import ast
import json
import os
import re
import statistics
import sys
import tomllib
from collections import defaultdict
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.__main__ import QUICK_SECTIONS, SECTIONS, left_out, parsed, show, sizes_of, write
from benchmarks.arms.arm import Absent, Arm, Batch, Job, Taken
from benchmarks.arms.spark import AskedLocally
from benchmarks.arms.windbolt import NumpyFloor, WindboltLocal
from benchmarks.contest import Arena, Entry
from benchmarks.figures import Figure, Results, Verdict, aligned, tables
from benchmarks.machine import PeakMemory
from benchmarks.probe import LoggedFiles, PublishedFiles
from benchmarks.queries.highest import HIGHEST
from benchmarks.queries.hottest import HOTTEST
from benchmarks.queries.joined import JOINED
from benchmarks.queries.query import Query
from benchmarks.queries.sessions import SESSIONS
from benchmarks.queries.wide import PairedEvents, WideEvents
from benchmarks.sections import kafka
from benchmarks.sections.bench import Bench, best, slowdown
from benchmarks.sections.latency import summary
from benchmarks.steady import PLAYS
from benchmarks.workloads import (
    FIRST_MS,
    FULL,
    LAG_MS,
    QUICK,
    W1,
    W2,
    W3,
    W4,
    WORKLOADS,
    Columns,
    Events,
    Workload,
    differences,
    middle,
)
from tests.helpers.places import ROOT

FEW = Events(3_000, keys=7, per_second=200, file_rows=1_000)


def test_events_are_the_same_every_time() -> None:
    again = Events(3_000, keys=7, per_second=200, file_rows=1_000)
    assert all((FEW.columns[name] == values).all() for name, values in again.columns.items())


def test_events_are_out_of_order_by_less_than_the_lag() -> None:
    times = FEW.columns["event_time"]
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() < LAG_MS


def test_events_are_written_once_in_order_of_arrival(tmp_path: Path) -> None:
    folder = FEW.files(tmp_path)
    paths = sorted(folder.iterdir())
    assert [pq.read_metadata(path).num_rows for path in paths] == [1_000, 1_000, 1_000]
    assert sorted(paths, key=os.path.getmtime) == paths
    values = pq.read_table(folder).column("value").to_numpy()
    assert (values == FEW.columns["value"]).all()
    stamps = [os.stat(path).st_ctime_ns for path in paths]
    assert FEW.files(tmp_path) == folder
    assert [os.stat(path).st_ctime_ns for path in paths] == stamps


def test_other_events_are_in_another_folder() -> None:
    names = {
        Events(9).name,
        Events(8).name,
        Events(9, 5).name,
        Events(9, per_second=5).name,
        Events(9, file_rows=5).name,
    }
    assert len(names) == 5


def test_the_last_end_is_what_the_watermark_has_passed() -> None:
    watermark = int(FEW.columns["event_time"].max()) - LAG_MS
    assert FEW.last_end * 1_000 <= watermark < (FEW.last_end + 1) * 1_000


def oracle(workload: Workload, events: Events) -> list[dict[str, Any]]:
    """The answer in the slow and obvious way: every window asks every event."""
    columns = [events.columns[name].tolist() for name in ("event_time", "key", "value")]
    rows = list(zip(*columns, strict=True))
    found: list[dict[str, Any]] = []
    for end in range(FIRST_MS // 1_000 + 1, events.last_end + 1):
        members: dict[int, list[float]] = defaultdict(list)
        for at, key, value in rows:
            if (end - workload.length) * 1_000 <= at < end * 1_000:
                members[key if workload.keyed else 0].append(value)
        for key, values in sorted(members.items()):
            row: dict[str, Any] = {"until": end * 1_000_000, "events": len(values)}
            if workload.keyed:
                row["key"] = key
            match workload.kind:
                case "statistics":
                    row |= {"total": sum(values), "mean": sum(values) / len(values)}
                case "middles":
                    row["middle"] = sorted(values)[len(values) // 2]
                case "medians":
                    row["median"] = statistics.median(values)
            found.append(row)
    return found


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_answers_are_those_of_the_oracle(workload: Workload) -> None:
    answer = workload.answer(FEW)
    expected = oracle(workload, FEW)
    assert len(expected) == len(answer["until"]) > 10
    for name, values in answer.items():
        assert values.tolist() == pytest.approx([row[name] for row in expected], rel=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_arms_without_spark_are_right(workload: Workload, tmp_path: Path) -> None:
    arms: list[Arm] = [WindboltLocal(), WindboltLocal("general"), *([NumpyFloor()] if workload in (W3, W4) else [])]
    arena = Arena(tmp_path, 1, FEW.count)
    figures = arena.contest("local", workload, [Entry(arm, 1_000) for arm in arms], FEW, "whole run")
    assert [(figure.status, figure.reason, len(figure.runs)) for figure in figures] == [("ok", "", 1)] * len(arms)


def rows_of(answer: Columns) -> pa.Table:
    columns = {name: pa.array(values) for name, values in answer.items()}
    columns["until"] = columns["until"].cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)


QUERIES = {
    SESSIONS: Events(40_000, keys=200, per_second=200, file_rows=10_000),
    HIGHEST: WideEvents(40_000, keys=7, per_second=500, file_rows=10_000),
    JOINED: PairedEvents(20_000, keys=40, per_second=200, file_rows=5_000),
    HOTTEST: Events(40_000, keys=30, per_second=500, file_rows=10_000),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_is_answered_as_duckdb_says(query: Query, tmp_path: Path) -> None:
    events = QUERIES[query]
    assert len(query.answer(events)["until"]) > 5
    ways = [query.topology] if query.advised is None else [query.topology, query.advised]
    for number, way in enumerate(ways):
        arena = Arena(tmp_path, 1, events.count)
        entry = Entry(AskedLocally(way, f"way {number}"), events.file_rows)
        (figure,) = arena.contest("queries", query, [entry], events, "whole run")
        assert figure.status == "ok", figure.reason


def test_an_answer_of_a_query_that_differs_is_found(tmp_path: Path) -> None:
    wrong = replace(HOTTEST, sql=HOTTEST.sql.replace("max(events)", "max(events) + 1"))
    events = Events(20_000, keys=30, per_second=500, file_rows=10_000)
    entry = Entry(AskedLocally(HOTTEST.topology), None)
    (figure,) = Arena(tmp_path, 1, events.count).contest("queries", wrong, [entry], events, "whole run")
    assert figure.status == "wrong"


def test_differences_are_found_whatever_the_order() -> None:
    answer = W2.answer(FEW)
    rows = rows_of(answer)
    shuffled = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    assert differences(shuffled, answer) is None
    assert differences(rows.slice(1), answer) == f"{rows.num_rows - 1:,} rows instead of {rows.num_rows:,}"
    off = rows.set_column(3, "total", pa.array(np.append(answer["total"][:-1], 1.5)))
    assert str(differences(off, answer)).startswith("1 rows differ in 'total': 1.5 instead of")


class Wrong:
    """An arm that leaves the last row out."""

    name = "wrong"
    ours = False
    batched = True
    most: int | None = None

    def missing(self) -> None:
        return None

    def run(self, job: Job) -> Taken:
        assert job.keep is not None, "it was timed"
        job.keep.mkdir()
        rows = rows_of(job.workload.answer(job.events))
        pq.write_table(rows.slice(1), job.keep / "rows.parquet")
        return Taken()


class Broken(Wrong):
    """An arm that breaks down when it is timed."""

    name = "broken"

    def run(self, job: Job) -> Taken:
        if job.keep is None:
            raise RuntimeError("no memory\nat somewhere")
        job.keep.mkdir()
        pq.write_table(rows_of(job.workload.answer(job.events)), job.keep / "rows.parquet")
        return Taken()


def test_arms_that_are_wrong_broken_or_missing_have_no_figures_but_a_reason(tmp_path: Path) -> None:
    arms: list[Arm] = [Wrong(), Broken(), Absent("Flink", "cannot be installed")]
    figures = Arena(tmp_path, 2, FEW.count).contest("s", W1, [Entry(arm, None) for arm in arms], FEW, "whole run")
    assert [figure.status for figure in figures] == ["wrong", "failed", "missing"]
    assert "rows instead of" in figures[0].reason
    assert [figure.reason for figure in figures[1:]] == ["RuntimeError: no memory", "cannot be installed"]
    assert not any(figure.runs for figure in figures)


def figure(arm: str, speeds: list[float], *, section: str = "batches", workload: str = "W1", **more: Any) -> Figure:
    """Made up: so many events per second in each run."""
    ours = arm.startswith("windbolt")
    taken = [Taken(1_200 / speed, 0.5, [Batch(1_000 / speed, True), Batch(100 / speed, False)]) for speed in speeds]
    found = Figure(section, workload, "a title", arm, ours, 1_000, 500, "data batches", **more)
    found.runs = [each.to_json() for each in taken]
    return found


def test_figures_are_medians_of_the_runs_by_their_basis() -> None:
    found = figure("windbolt", [100.0, 400.0, 200.0])
    assert found.speed == pytest.approx(200, rel=1e-2)
    assert found.end_to_end == pytest.approx(200 / 1.2, rel=1e-2)
    assert found.cpu == pytest.approx(500)
    found.basis = "all batches"
    assert found.speed == pytest.approx(200 / 1.1, rel=1e-2)
    found.basis = "whole run"
    assert found.speed == found.end_to_end


def results(**about: Any) -> Results:
    """Made up."""
    machine = {
        "processors": 2, "processor": "made up", "memory_gib": 1.0, "load_before": [0.1, 0.0, 0.0],
        "python": "3", "java": "17", "packages": {"numpy": "2", "bytewax": None},
    }  # fmt: skip
    return Results({"machine": machine, "quick": False, "sizes": {"runs": 3}, **about})


def made_up(tmp_path: Path) -> Results:
    """A benchmark of three arms, one of which is missing."""
    found = results()
    bench = Bench(tmp_path, QUICK, found)
    figures = [
        figure("windbolt", [3e6, 3.2e6, 2.8e6]), figure("Spark's own", [1e6]),
        figure("bytewax", [], status="missing", reason="not installed: bytewax"),
    ]  # fmt: skip
    bench.add(figures)
    bench.judge(figures, 1.5)
    bench.judge(figures, 4.0)
    bench.judge([figures[0], figures[2]], 2.0)
    quick = Figure("latency", "1 s", "small", "windbolt", True, 5, 1, "whole run", note=summary([[10.0, 20.0, 30.0]]))
    bench.add([quick])
    return found


def test_goals_are_met_not_met_or_not_measured(tmp_path: Path) -> None:
    verdicts = made_up(tmp_path).verdicts
    assert [(verdict.bar, verdict.met) for verdict in verdicts] == [(1.5, True), (4.0, False), (2.0, None)]
    assert verdicts[0].value == pytest.approx(3, rel=1e-2)


def test_a_goal_is_about_the_best_of_the_peers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, QUICK, results())
    bench.judge([figure("windbolt", [600]), figure("Spark's own", [100]), figure("bytewax", [300])], 3)
    assert bench.results.verdicts[0].value == pytest.approx(2, rel=1e-2)
    assert bench.results.verdicts[0].met is False


def test_a_limit_is_met_below_it() -> None:
    assert Verdict("growth", "W2", "flat", 1.5, 1.4, at_most=True).met is True
    assert Verdict("growth", "W2", "flat", 1.5, 1.6, at_most=True).met is False


def test_tables_name_what_is_missing_and_what_is_not_met(tmp_path: Path) -> None:
    text = tables(made_up(tmp_path))
    lines = {line.split("|")[2].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert lines["Spark's own"].split("|")[4:8] == [
        " 1,000                  ",
        " 833        ",
        " 500.00       ",
        " 1.00  ",
    ]
    assert "missing" in lines["bytewax"]
    assert "not installed: bytewax" in lines["bytewax"]
    goals = [line.split("|")[-2].strip() for line in text[text.index("goals\n") :].splitlines() if "at least" in line]
    assert goals == ["met", "not met", "not measured"]
    assert "busy" not in text


def test_a_table_of_latencies_says_what_was_not_counted() -> None:
    found = results()
    runs = [{"values_ms": [float(value) for value in range(100)], "sent": 500, "counted": 488}]
    for arm, run in (("windbolt", {**runs[0], "counted": 500}), ("Spark's own", runs[0])):
        note = kafka.summary([run])
        found.figures.append(Figure("kafka", "1 s", "small", arm, arm == "windbolt", 500, None, "whole run", note=note))
    broken = Figure("kafka", "1 s", "small", "other", False, 500, None, "whole run", "failed", "no broker")
    found.figures.append(broken)
    rows = {line.split("|")[2].strip(): line.split("|")[3:] for line in tables(found).splitlines() if "small" in line}
    cells = {arm: [cell.strip() for cell in row[:4]] for arm, row in rows.items()}
    assert cells == {
        "windbolt": ["50", "98", "50", ""],
        "Spark's own": ["50", "98", "50", "12 of 500 records not counted"],
        "other": ["failed", "", "", "no broker"],
    }


def test_rows_for_kafka_are_lines() -> None:
    until = pa.array([1_714_521_601_000_000], pa.timestamp("us", "UTC"))
    rows = kafka.Lines().execute(pa.table({"key": ["7"], "until": until, "events": [3]}))
    assert rows.to_pylist() == [{"key": "7", "value": "1714521601000 3"}]


def test_tables_say_when_the_machine_was_busy_and_when_it_was_quick() -> None:
    found = results(quick=True)
    found.about["machine"]["load_before"] = [3.0, 1.0, 1.0]
    assert "The machine was busy" in tables(found)
    assert "Quick:" in tables(found)
    assert "Not measured" not in tables(found)
    found.about["left_out"] = ["keys", "kafka"]
    assert "Not measured: keys, kafka." in tables(found)


def test_columns_of_a_table_are_aligned() -> None:
    assert aligned(["a", "bb"], [["ccc", ""]]) == "| a   | bb |\n| --- | -- |\n| ccc |    |"


def test_results_are_written_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = made_up(tmp_path)
    assert show(found, tmp_path) == 0
    text = (tmp_path / "results.json").read_text()
    again = Results.of_json(json.loads(text))
    assert tables(again) == tables(found) == capsys.readouterr().out.removesuffix("\n")
    assert (tmp_path / "results.png").exists() == (find_spec("matplotlib") is not None)
    write(again, tmp_path)
    assert (tmp_path / "results.json").read_text() == text
    missing = next(each for each in json.loads(text)["figures"] if each["arm"] == "bytewax")
    assert (missing["status"], missing["reason"]) == ("missing", "not installed: bytewax")


def test_a_wrong_arm_is_a_failure(tmp_path: Path) -> None:
    found = results()
    found.figures = [figure("windbolt", [], status="wrong", reason="3 rows instead of 4")]
    assert show(found, tmp_path) == 1


def test_the_best_batch_is_the_fastest_that_worked() -> None:
    sizes = (500, 1_000, 2_000, None)
    assert best({"500": 10, "1,000": 30, "2,000": "MemoryError: much", "all": 20}, sizes) == 1_000
    assert best({"500": 10, "1,000": 30, "all": 50}, sizes) is None
    assert best({}, (None,)) is None


def test_slowdown_is_that_of_the_slowest() -> None:
    assert slowdown([figure("windbolt", [speed]) for speed in (300, 400, 100)]) == pytest.approx(3, rel=1e-2)
    assert slowdown([figure("windbolt", [300]), figure("windbolt", [])]) is None


def test_options() -> None:
    quick = parsed(["--quick", "--only", "batches,local", "--workloads", "W2", "--runs", "2", "--events", "7"])
    assert quick.only == ["batches", "local"]
    assert quick.workloads == [W2]
    sizes = sizes_of(quick)
    assert (sizes.runs, sizes.events, sizes.drain) == (2, 7, QUICK.drain)
    assert sizes_of(parsed([])) == FULL
    assert left_out(quick) == [name for name in SECTIONS if name not in ("batches", "local")] + ["W1", "W3", "W4"]
    assert left_out(parsed([])) == []
    assert parsed(["--quick"]).only == [name for name in SECTIONS if name in QUICK_SECTIONS]
    assert parsed(["--quick"]).workloads == [W1, W2, W4]
    assert parsed(["--quick", "--only", "kafka"]).only == ["kafka"]
    assert parsed(["--only", "kafka"]).workloads == list(WORKLOADS)
    with pytest.raises(SystemExit):
        parsed(["--only", "nothing"])


def test_the_middle_of_an_even_number_is_the_upper_one() -> None:
    assert middle([4.0, 1.0, 3.0, 2.0]) == 3.0


def test_published_files_are_seen_once_and_drafts_never(tmp_path: Path) -> None:
    (tmp_path / ".draft.parquet").touch()
    files = PublishedFiles(tmp_path)
    assert list(files.new()) == []
    (tmp_path / "batch-1.parquet").touch()
    assert [path.name for path in files.new()] == ["batch-1.parquet"]
    assert list(files.new()) == []


def test_files_of_spark_are_seen_when_the_log_names_them(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    files = LoggedFiles(tmp_path)
    assert list(files.new()) == []
    log.mkdir()
    (tmp_path / "a b.parquet").touch()
    assert list(files.new()) == []
    line = json.dumps({"path": f"file://{tmp_path}/a%20b.parquet", "action": "add"})
    (log / "0").write_text(f"v1\n{line}")
    assert list(files.new()) == [tmp_path / "a b.parquet"]
    (log / "9.compact").write_text(f"v1\n{line}")
    assert list(files.new()) == []


def test_the_memory_of_no_workers_is_none() -> None:
    with PeakMemory() as peak:
        pass
    assert set(peak.figures()) == {"peak_mib_by_worker", "peak_worker_mib", "peak_worker_own_mib"}


@pytest.mark.parametrize(
    ("play", "events", "keys"),
    [
        ("batches", 1_000_000, 1_000),
        pytest.param("dead-keys", 2_000_000, 2_000_000, marks=pytest.mark.extended),
        pytest.param("live-keys", 2_000_000, 1_000_000, marks=pytest.mark.extended),
        pytest.param("one-window", 5_000_000, 1_000, marks=pytest.mark.extended),
    ],
)
def test_long_runs_have_the_events_and_keys_that_they_say(play: str, events: int, keys: int) -> None:
    played = next(each for each in PLAYS if each.name == play)
    assert played.batches * played.rows == events
    found = np.concatenate([played.keys(batch, played.rows) for batch in range(played.batches)])
    assert len(found) == events
    assert len(np.unique(found)) == keys
    assert played.parted(0.1).batches == max(4, round(played.batches * 0.1))


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, or names in a string, as for a process of their own.

    What is imported from a module may be a module too.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"(benchmarks|servers)(\.\w+)+", str(node.value)):
            found.add(str(node.value))
    return found


def test_the_extra_has_what_the_benchmark_imports() -> None:
    """./run benchmark installs the project with the extra `peers`, and nothing of the tests' own."""
    reached, packages, waiting = set[str](), set[str](), ["benchmarks.__main__"]
    while waiting:
        module = waiting.pop()
        top = module.partition(".")[0]
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        if top in ("benchmarks", "servers"):
            if path.exists() and module not in reached:
                reached.add(module)
                waiting += imported(path)
        elif not (ROOT / top).is_dir() and top not in sys.stdlib_module_names:
            packages.add({"yaml": "pyyaml"}.get(top, top.replace("_", "-")))
    assert {"servers.jars", "benchmarks.probe", "benchmarks.arms.bytewax_flow"} <= reached
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["peers"]
    names = {re.split(r"[^\w.-]", each, maxsplit=1)[0].lower() for each in wanted}
    assert packages <= names, packages - names
