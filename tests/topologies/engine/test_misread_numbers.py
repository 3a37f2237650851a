"""Epoch seconds, and days in digits, that are taken for milliseconds: a run warns of them as ``check`` does, once, and
goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.inspect_spouts import inspect_spouts
from topologies.engine.report import BatchReport
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, Bolt, WindowedBolt, aggregates

SECONDS = 1_704_088_805


class Same(Bolt):
    """A bolt without windows between the spout and the windows."""

    outputs = "id long, ts long"

    def execute(self, tuple: Any) -> Any:
        """The same row."""
        return tuple["id"], tuple["ts"]


def counting() -> WindowedBolt:
    return AggregateBolt(n=aggregates.count()).with_tumbling_window("10s")


def events(times: list[int]) -> Any:
    return spouts.memory("id long, ts long", [[(at, time) for at, time in enumerate(times)]])


def topology(bolt: WindowedBolt, spout: Any, *, after: bool = False) -> Topology:
    builder = TopologyBuilder("seconds")
    builder.set_spout("s", spout)
    if after:
        builder.set_bolt("same", Same()).shuffle_grouping("s")
    builder.set_bolt("n", bolt).global_grouping("same" if after else "s")
    builder.set_bolt("then", counting()).global_grouping("n")
    builder.set_sink("out", sinks.memory()).from_("then")
    return builder.build()


def complaints(built: Topology, **options: Any) -> list[list[str]]:
    found: list[BatchReport] = []
    run_local(built, RunOptions(on_report=found.append, **options))
    return [report.complaints for report in found if report.complaints]


BY_FIELD = counting().with_timestamp_field("ts")
BY_EXTRACTOR = counting().with_timestamp_extractor(lambda event: event["ts"])
BY_COLUMN = counting().with_timestamp_extractor(lambda table: table["ts"], columns=True)


@pytest.mark.parametrize(
    ("bolt", "whose"),
    [(BY_FIELD, "in 'ts'"), (BY_EXTRACTOR, "of its timestamp extractor"), (BY_COLUMN, "of its timestamp extractor")],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_run_warns_once_at_the_first_events(bolt: WindowedBolt, whose: str, after: bool, tmp_path: Path) -> None:
    for at in range(4):
        (tmp_path / f"{at}.jsonl").write_text("" if not at else f'{{"id": {at}, "ts": {SECONDS + 100 * (at - 1)}}}\n')
    spout = spouts.files(str(tmp_path / "*.jsonl"), "id long, ts long", files_per_batch=1)
    ((found,),) = complaints(topology(bolt, spout, after=after))
    source = "same" if after else "s"
    assert found.startswith(f"n: {source}: the times {whose} are before 1990, up to 1970-01-20T17:21:28.805Z.")
    assert "whole numbers are milliseconds since 1970" in found


@pytest.mark.parametrize("bolt", [BY_FIELD, BY_EXTRACTOR, BY_COLUMN])
def test_check_says_the_same(bolt: WindowedBolt) -> None:
    (found,) = inspect_spouts(topology(bolt, events([SECONDS] * 3)))["s"].warnings
    ((told,),) = complaints(topology(bolt, events([SECONDS] * 3)))
    assert told.partition(": the times")[2] == str(found).partition(": the times")[2]


@pytest.mark.parametrize(
    ("day", "form"),
    [
        (2024_01_31, "%Y%m%d"),
        (2024_01_31_06, "%Y%m%d%H"),
        (2024_01_31_06_30, "%Y%m%d%H%M"),
        (2024_01_31_06_30_59, "%Y%m%d%H%M%S"),
    ],
)
@pytest.mark.parametrize("bolt", [BY_FIELD, BY_EXTRACTOR])
def test_a_day_in_digits_is_told_with_the_form_that_reads_it(
    bolt: WindowedBolt, day: int, form: str, tmp_path: Path
) -> None:
    ((told,),) = complaints(topology(bolt, events([day])))
    assert f"whole numbers are milliseconds since 1970, and {day} looks like a day, {form}" in told
    (found,) = inspect_spouts(topology(bolt, events([day])))["s"].warnings
    assert told.partition(": the times")[2] == str(found).partition(": the times")[2]
    (tmp_path / "a.jsonl").write_text(f'{{"id": 1, "ts": {day}}}\n')
    spout = spouts.files(str(tmp_path), "id long, ts timestamp", format="jsonl", times={"ts": form})
    assert complaints(topology(BY_FIELD, spout)) == []
    if bolt is BY_FIELD:
        assert f"times={{'ts': {form!r}}}" in told


@pytest.mark.parametrize(
    "times",
    [
        [1_704_088_805_000],
        [5, 100_000],
        [-SECONDS],
        [470_000_000_000],
        [2024_13_01],
        [2024_02_30],
        [1899_01_01],
        [2024_13_01_06_00],
    ],
)
def test_milliseconds_are_no_matter(times: list[int]) -> None:
    built = topology(BY_FIELD, events(times))
    assert complaints(built) == []
    assert inspect_spouts(topology(BY_FIELD, events(times)))["s"].warnings == ()


def test_a_topology_that_stops_on_invalid_input_goes_on() -> None:
    builder = TopologyBuilder("seconds", on_invalid="stop")
    builder.set_spout("s", spouts.memory("ts long", [[(SECONDS,)]]))
    builder.set_bolt("n", BY_FIELD).global_grouping("s")
    out = sinks.memory()
    builder.set_sink("out", out).from_("n")
    run_local(builder.build(), RunOptions())
    assert out.rows == [{"n": 1}]
