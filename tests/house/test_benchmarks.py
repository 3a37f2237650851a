"""The benchmark's own parts: its events, its answers, its tables. Nothing here takes a time, or starts Spark."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import statistics
import sys
import tomllib
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.__main__ import QUICK_SECTIONS, SECTIONS, left_out, parsed, show, write
from benchmarks.contest import Arm, Batch, Bench, Job, Question, Taken, numpy, windbolt_in_process
from benchmarks.events import (
    FIRST_MS,
    LAG_MS,
    Bursts,
    Columns,
    Events,
    InMemory,
    PairedEvents,
    WideEvents,
    differences,
    middle,
    orders,
)
from benchmarks.figures import Figure, Results, Verdict, aligned, tables
from benchmarks.questions import HIGHEST, HOTTEST, JOINED, QUERIES, SESSIONS, W1, W2, W3, W4, WORKLOADS
from benchmarks.sections import core, long
from benchmarks.sections.latency import Lines, logged, published, summary
from benchmarks.sections.long import BATCH, CPU, LIMITS, MEMORY, PLAYS, judge, stretch
from benchmarks.sections.long import differences as compared
from benchmarks.sections.throughput import best, slowdown
from servers import browser, prometheus
from servers.processes import peak_memory
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
    folder = Path(FEW.source(tmp_path))
    paths = sorted(folder.iterdir())
    assert [pq.read_metadata(path).num_rows for path in paths] == [1_000, 1_000, 1_000]
    assert sorted(paths, key=os.path.getmtime) == paths
    values = pq.read_table(folder).column("value").to_numpy()
    assert (values == FEW.columns["value"]).all()
    stamps = [os.stat(path).st_ctime_ns for path in paths]
    assert FEW.source(tmp_path) == str(folder)
    assert [os.stat(path).st_ctime_ns for path in paths] == stamps


def test_other_events_are_in_another_folder() -> None:
    names = {
        Events(9).name,
        Events(8).name,
        Events(9, 5).name,
        Events(9, per_second=5).name,
        Events(9, file_rows=5).name,
        Events(9, late_ms=5).name,
        Events(9, in_turn=True).name,
        WideEvents(9).name,
    }
    assert len(names) == 8


def test_events_without_disorder_and_keys_in_turn_are_so() -> None:
    events = Events(100, keys=7, late_ms=0, in_turn=True)
    assert (np.diff(events.columns["event_time"]) >= 0).all()
    assert events.columns["key"].tolist() == [number % 7 for number in range(100)]


def test_bursts_are_of_one_key_each_and_out_of_order_by_less_than_the_lag() -> None:
    table = Bursts(2_000, keys=9).table()
    order = np.argsort(table["event_time"].cast(pa.int64()).to_numpy(), kind="stable")
    assert table.num_rows == 2_000
    arrivals, times = (table[name].cast(pa.int64()).to_numpy() for name in ("arrival", "event_time"))
    assert (np.diff(arrivals) >= 0).all()
    assert ((arrivals - times >= 0) & (arrivals - times < LAG_MS)).all()
    assert len(np.unique(table["key"].to_numpy()[order])) == 9


def test_orders_are_of_the_stretch_that_was_asked_for() -> None:
    lines = [json.loads(line) for line in orders(Random(1), 999.0, 1.0, 4, users=3).splitlines()]
    assert [datetime.fromisoformat(each["ts"]).timestamp() for each in lines] == [999.0, 999.25, 999.5, 999.75]
    assert set(lines[0]) == {"user", "amount", "ts"}


def test_the_last_end_is_what_the_watermark_has_passed() -> None:
    watermark = int(FEW.columns["event_time"].max()) - LAG_MS
    assert FEW.last_end * 1_000 <= watermark < (FEW.last_end + 1) * 1_000


def oracle(workload: Question, events: Events) -> list[dict[str, Any]]:
    """The answer in the slow and obvious way: every window asks every event."""
    columns = [events.columns[name].tolist() for name in ("event_time", "key", "value")]
    rows = list(zip(*columns, strict=True))
    found: list[dict[str, Any]] = []
    for end in range(FIRST_MS // 1_000 + 1, events.last_end + 1):
        members: dict[int, list[float]] = defaultdict(list)
        for at, key, value in rows:
            if (end - workload.length) * 1_000 <= at < end * 1_000:
                members[0 if workload.kind == "medians" else key].append(value)
        for key, values in sorted(members.items()):
            row: dict[str, Any] = {"until": end * 1_000_000, "events": len(values)}
            if workload.kind != "medians":
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
def test_the_answers_are_those_of_the_oracle(workload: Question) -> None:
    answer = answer_of(workload)
    expected = oracle(workload, FEW)
    assert len(expected) == len(answer["until"]) > 10
    for name, values in answer.items():
        assert values.tolist() == pytest.approx([row[name] for row in expected], rel=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_arms_without_spark_are_right(workload: Question, tmp_path: Path) -> None:
    floors = [numpy()] if workload in (W3, W4) else []
    arms = [*(windbolt_in_process(way) for way in workload.ways), *floors]
    bench = Bench(tmp_path, results(), runs=1)
    figures = bench.contest("local", [bench.entry(arm, workload, FEW, 1_000) for arm in arms], "whole run")
    assert [(figure.status, figure.reason, len(figure.runs)) for figure in figures] == [("ok", "", 1)] * len(arms)


def answer_of(question: Question, events: Events = FEW) -> Columns:
    assert question.answer is not None
    return question.answer(events)


def rows_of(answer: Columns) -> pa.Table:
    columns = {name: pa.array(values) for name, values in answer.items()}
    columns["until"] = columns["until"].cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)


EVENTS = {
    SESSIONS: Events(40_000, keys=200, per_second=200, file_rows=10_000),
    HIGHEST: WideEvents(40_000, keys=7, per_second=500, file_rows=10_000),
    JOINED: PairedEvents(20_000, keys=40, per_second=200, file_rows=5_000),
    HOTTEST: Events(40_000, keys=30, per_second=500, file_rows=10_000),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_is_answered_as_duckdb_says(query: Question, tmp_path: Path) -> None:
    events = EVENTS[query]
    assert len(answer_of(query, events)["until"]) > 5
    bench = Bench(tmp_path, results(), runs=1)
    entries = [bench.entry(windbolt_in_process(way), query, events, events.file_rows) for way in query.ways]
    for figure in bench.contest("queries", entries, "whole run"):
        assert figure.status == "ok", figure.reason


def test_an_answer_of_a_query_that_differs_is_found(tmp_path: Path) -> None:
    def off_by_one(events: Events) -> Columns:
        found = answer_of(HOTTEST, events)
        return {**found, "events": found["events"] + 1}

    events = Events(20_000, keys=30, per_second=500, file_rows=10_000)
    bench = Bench(tmp_path, results(), runs=1)
    entry = bench.entry(windbolt_in_process(), replace(HOTTEST, answer=off_by_one), events)
    (figure,) = bench.contest("queries", [entry], "whole run")
    assert figure.status == "wrong"
    assert "'events'" in figure.reason


def test_differences_are_found_whatever_the_order() -> None:
    answer = answer_of(W2)
    rows = rows_of(answer)
    shuffled = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    assert differences(shuffled, answer) is None
    assert differences(rows.slice(1), answer) == f"{rows.num_rows - 1:,} rows instead of {rows.num_rows:,}"
    off = rows.set_column(3, "total", pa.array(np.append(answer["total"][:-1], 1.5)))
    assert str(differences(off, answer)).startswith("1 rows differ in 'total': 1.5 instead of")


def without_the_last_row(job: Job) -> Taken:
    assert job.keep is not None, "it was timed"
    job.keep.mkdir()
    pq.write_table(rows_of(answer_of(job.question, job.events)).slice(1), job.keep / "rows.parquet")
    return Taken()


def breaks_down_when_it_is_timed(job: Job) -> Taken:
    if job.keep is None:
        raise RuntimeError("no memory\nat somewhere")
    job.keep.mkdir()
    pq.write_table(rows_of(answer_of(job.question, job.events)), job.keep / "rows.parquet")
    return Taken()


def test_arms_that_are_wrong_broken_or_missing_have_no_figures_but_a_reason(tmp_path: Path) -> None:
    arms = [
        Arm("wrong", without_the_last_row),
        Arm("broken", breaks_down_when_it_is_timed),
        Arm("missing", without_the_last_row, needs=("json", "no_such_module")),
    ]
    bench = Bench(tmp_path, results(), runs=2)
    figures = bench.contest("s", [bench.entry(arm, W1, FEW) for arm in arms], "whole run")
    assert [figure.status for figure in figures] == ["wrong", "failed", "missing"]
    assert "rows instead of" in figures[0].reason
    assert [figure.reason for figure in figures[1:]] == ["RuntimeError: no memory", "not installed: no_such_module"]
    assert not any(figure.runs for figure in figures)
    assert bench.results.figures == figures


def test_an_arm_that_is_wrong_when_it_is_timed_has_no_figures(tmp_path: Path) -> None:
    """Where each run is checked by itself, as the totals of the aggregation step are."""
    numbers = iter(range(9))
    arm = Arm("worse and worse", lambda job: Taken(1, 1), lambda job, taken: "late" if next(numbers) == 2 else None)
    bench = Bench(tmp_path, results(), runs=3)
    (figure,) = bench.contest("s", [bench.entry(arm, W1, InMemory(5))], "whole run")
    assert (figure.status, figure.reason, figure.runs) == ("wrong", "wrong, and not timed: late", [])


def test_arms_and_questions_are_chosen_by_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path, results(), runs=1, named=["W2"], arms=re.compile("^b").search)
    assert bench.chosen(WORKLOADS) == [W2]
    arms = [Arm(name, lambda job: Taken(1, 1), lambda job, taken: None) for name in ("a", "b")]
    assert [each.arm for each in bench.contest("s", [bench.entry(arm, W2, FEW) for arm in arms], "whole run")] == ["b"]


def test_a_part_of_the_events_is_a_million_at_most_where_it_is_quick(tmp_path: Path) -> None:
    assert Bench(tmp_path, results()).scaled(50_000_000) == 50_000_000
    assert Bench(tmp_path, results(), part=0.1).scaled(5_000_000) == 500_000
    assert Bench(tmp_path, results(), part=0.2, quick=True).scaled(50_000_000) == 1_000_000


@pytest.mark.parametrize("section", ["core", "policies", "stateful"])
def test_the_sections_of_one_process_are_right(section: str, tmp_path: Path) -> None:
    """Whose arms call the product's own parts: they break when these change."""
    bench = Bench(tmp_path, results(), runs=1, part=0.01)
    SECTIONS[section].run(bench)
    assert {(figure.status, figure.reason) for figure in bench.results.figures} == {("ok", "")}
    assert "events/s" in tables(bench.results)


def test_a_sum_that_is_wrong_is_found() -> None:
    job = Job(Question("sliding", length=10), InMemory(1_000), "", None, Path())
    right = float(job.events.columns["value"].sum() * 10)
    assert core._sum_is_right(job, Taken(note={"total": right})) is None
    assert core._sum_is_right(job, Taken(note={"total": right + 1})) == f"the sum is {right + 1} instead of {right}"


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
    bench = Bench(tmp_path, found)
    figures = [
        figure("windbolt", [3e6, 3.2e6, 2.8e6]), figure("Spark's own", [1e6]),
        figure("bytewax", [], status="missing", reason="not installed: bytewax"),
    ]  # fmt: skip
    found.figures += figures
    bench.judge(figures, 1.5)
    bench.judge(figures, 4.0)
    bench.judge([figures[0], figures[2]], 2.0)
    quick = Figure(
        "latency",
        "1 s",
        "small",
        "windbolt",
        True,
        5,
        1,
        "whole run",
        note=summary([{"values_ms": [10.0, 20.0, 30.0]}]),
    )
    found.figures.append(quick)
    return found


def test_goals_are_met_not_met_or_not_measured(tmp_path: Path) -> None:
    verdicts = made_up(tmp_path).verdicts
    assert [(verdict.bar, verdict.met) for verdict in verdicts] == [(1.5, True), (4.0, False), (2.0, None)]
    assert verdicts[0].value == pytest.approx(3, rel=1e-2)


def test_a_goal_is_about_the_best_of_the_peers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, results())
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
        note = summary([run])
        found.figures.append(Figure("kafka", "1 s", "small", arm, arm == "windbolt", 500, None, "whole run", note=note))
    broken = Figure("kafka", "1 s", "small", "other", False, 500, None, "whole run", "failed", "no broker")
    found.figures.append(broken)
    lines = tables(found).partition("median ms")[2].splitlines()[2:]
    rows = {line.split("|")[2].strip(): line.split("|")[3:] for line in lines}
    cells = {arm: [cell.strip() for cell in row[:4]] for arm, row in rows.items()}
    assert cells == {
        "windbolt": ["50", "98", "50", ""],
        "Spark's own": ["50", "98", "50", "12 of 500 records not counted"],
        "other": ["failed", "", "", "no broker"],
    }


def test_rows_for_kafka_are_lines() -> None:
    until = pa.array([1_714_521_601_000_000], pa.timestamp("us", "UTC"))
    rows = Lines().execute(pa.table({"key": ["7"], "until": until, "events": [3]}))
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
    assert best({"500,000": 10, "2,500,000": 30, "5,000,000": "MemoryError: much", "all": 20}) == 2_500_000
    assert best({"500,000": 10, "2,500,000": 30, "all": 50}) is None
    assert best({}) is None


def test_slowdown_is_that_of_the_slowest() -> None:
    assert slowdown([figure("windbolt", [speed]) for speed in (300, 400, 100)]) == pytest.approx(3, rel=1e-2)
    assert slowdown([figure("windbolt", [300]), figure("windbolt", [])]) is None


def test_options() -> None:
    quick = parsed(["--quick", "--only", "batches,local", "--workloads", "W2", "--runs", "2"])
    assert (quick.only, quick.workloads, quick.runs, quick.part) == (["batches", "local"], ["W2"], 2, 0.2)
    whole = parsed([])
    assert (whole.only, whole.workloads, whole.runs, whole.part) == (list(SECTIONS), [], 3, 1.0)
    others = [name for name in SECTIONS if name not in ("batches", "local")]
    assert left_out(quick) == [*others, "W1", "W3", "W4"]
    assert left_out(whole) == []
    assert parsed(["--quick"]).only == [*QUICK_SECTIONS]
    assert parsed(["--quick"]).workloads == ["W1", "W2", "W4"]
    assert parsed(["--quick", "--only", "kafka"]).workloads == []
    assert parsed(["--only", "requests", "--workloads", "64x100,400x400"]).workloads == ["64x100", "400x400"]
    for wrong in (["--only", "nothing"], ["--workloads", "W9"]):
        with pytest.raises(SystemExit):
            parsed(wrong)


def test_every_question_that_options_name_is_one() -> None:
    names = {question.name for question in (*WORKLOADS, *QUERIES)} | {play.name for play in PLAYS}
    named = {name for section in SECTIONS.values() for name in section.questions.split()}
    assert {name for name in named if not re.fullmatch(r"\d+x\d+", name)} == names


def test_the_middle_of_an_even_number_is_the_upper_one() -> None:
    assert middle([4.0, 1.0, 3.0, 2.0]) == 3.0


def test_published_files_are_seen_once_and_drafts_never(tmp_path: Path) -> None:
    (tmp_path / ".draft.parquet").touch()
    known: set[str] = set()
    assert list(published(tmp_path, known)) == []
    (tmp_path / "batch-1.parquet").touch()
    assert [path.name for path in published(tmp_path, known)] == ["batch-1.parquet"]
    assert list(published(tmp_path, known)) == []


def test_files_of_spark_are_seen_when_the_log_names_them(tmp_path: Path) -> None:
    log, known = tmp_path / "_spark_metadata", set[str]()
    assert list(logged(tmp_path, known)) == []
    log.mkdir()
    (tmp_path / "a b.parquet").touch()
    assert list(logged(tmp_path, known)) == []
    line = json.dumps({"path": f"file://{tmp_path}/a%20b.parquet", "action": "add"})
    (log / "0").write_text(f"v1\n{line}")
    assert list(logged(tmp_path, known)) == [tmp_path / "a b.parquet"]
    (log / "9.compact").write_text(f"v1\n{line}")
    assert list(logged(tmp_path, known)) == []


def test_the_memory_of_no_workers_is_none() -> None:
    with peak_memory() as peak:
        pass
    assert set(peak) == {"peak_worker_mib", "peak_worker_own_mib"}


def test_a_stretch_has_what_was_used_between_two_looks() -> None:
    batches = [{"rows": 2_000, "seconds": {"total": (40 + number) / 1_000}} for number in range(5)]
    first = {"at": 100.0, "cpu": 1.0, "driver": 0.5, "bytes": 0, "batches": batches[:1]}
    last = {"at": 160.0, "cpu": 31.0, "driver": 15.5, "bytes": 100 << 20, "batches": batches}
    found = stretch(first, last)
    assert (found[CPU], found["CPU of the driver, % of a core"], found[MEMORY]) == (50.0, 25.0, 100.0)
    assert [found[BATCH], found["rows a second"]] == pytest.approx([42.5, 8_000 / 60])
    assert math.isnan(stretch(last, {**last, "at": 200.0})[BATCH])


def test_the_cost_of_watching_is_that_of_pairs_of_stretches() -> None:
    watched = [{CPU: 50.4, BATCH: 43.0}, {CPU: 60.6, BATCH: 44.0}, {CPU: 70.5, BATCH: math.nan}]
    alone = [{CPU: 50.0, BATCH: 42.0}, {CPU: 60.0, BATCH: 43.0}, {CPU: 70.0, BATCH: 42.0}]
    found = compared(watched, alone)
    assert list(found[CPU]) == pytest.approx([60.5, 60.0, 0.1 / math.sqrt(3)])
    assert list(found[BATCH]) == pytest.approx([43.5, 42.5, 0])
    assert math.isnan(compared(watched[2:], alone[2:])[BATCH][0])


def test_what_cannot_be_had_to_watch_a_run_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> Path:
        raise RuntimeError("no network")

    monkeypatch.setattr(browser, "executable", lambda: None)
    monkeypatch.setattr(prometheus, "folder", Path)
    assert (long.lacking(page=False), long.lacking(page=True)) == ((), ("chromium",))
    monkeypatch.setattr(prometheus, "folder", unavailable)
    assert Arm("--metrics", without_the_last_row, needs=long.lacking(page=False)).missing == "not installed: prometheus"


@pytest.mark.parametrize(
    ("cpu", "memory", "batch", "met"),
    [
        (50.9, 149.0, 42.0, [True, True, True]),
        (51.1, 149.0, 42.0, [False, True, True]),
        (50.9, 151.0, 42.0, [True, False, True]),
        (50.0, 100.0, 43.0, [True, True, False]),
    ],
)
def test_the_limits_of_watching_are_those_of_the_goal(
    cpu: float, memory: float, batch: float, met: list[bool], tmp_path: Path
) -> None:
    bench = Bench(tmp_path, results())
    judge(bench, "--metrics", {CPU: (cpu, 50.0, 0.1), MEMORY: (memory, 100.0, 1.0), BATCH: (batch, 42.0, 0.4)})
    assert [verdict.met for verdict in bench.results.verdicts] == met
    assert LIMITS == {CPU: 1.0, MEMORY: 50.0}


@pytest.mark.parametrize(
    ("play", "events", "keys"),
    [
        ("batches", 1_000_000, 1_000),
        ("dead-keys", 2_000_000, 2_000_000),
        ("live-keys", 2_000_000, 1_000_000),
        ("one-window", 5_000_000, 1_000),
    ],
)
def test_long_runs_have_the_events_and_keys_that_they_say(play: str, events: int, keys: int) -> None:
    played = next(each for each in PLAYS if each.name == play)
    found = played.events()
    assert (found.count, found.count / found.file_rows) == (events, played.batches)
    assert min(found.count, found.keys) == keys
    assert played.events(0.1).count == max(4, round(played.batches * 0.1)) * played.rows
    assert played.events(0.1).in_turn


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
    """./run benchmark installs the project with the extra `peers`; it needs nothing of the tests'."""
    reached, packages, waiting = set[str](), set[str](), ["benchmarks.__main__"]
    while waiting:
        module = waiting.pop()
        top = module.partition(".")[0]
        assert top != "tests", "servers/ has what both need"
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        if top in ("benchmarks", "servers"):
            if path.exists() and module not in reached:
                reached.add(module)
                waiting += imported(path)
        elif not (ROOT / top).is_dir() and top not in sys.stdlib_module_names:
            packages.add({"yaml": "pyyaml", "werkzeug": "moto"}.get(top, top.replace("_", "-")))
    assert {"servers.java", "servers.s3", "benchmarks.sections.long"} <= reached
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["peers"]
    names = {re.split(r"[^\w.-]", each, maxsplit=1)[0].lower() for each in wanted}
    assert packages <= names, packages - names
