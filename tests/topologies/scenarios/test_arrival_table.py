"""The table of events as they were taken in, beside those of the systems' own pages."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.places import SCENARIOS
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import LoadedScenario, load, read_scenario
from topologies.scenarios.timeline import TableTimes, arrival_table

NOON = 1_704_110_400_000_000  # 2024-01-01T12:00:00Z
MINUTE = 60_000_000


def rows(scenario: Any, width: int = 120) -> list[list[str]]:
    table = arrival_table(scenario, replay_locally(scenario))
    assert table is not None
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    lines = [line.replace("┃", "│") for line in file.getvalue().splitlines() if line[0] in "│┃"]
    assert max(map(len, lines)) <= width
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def first(path: str) -> Any:
    item = next(iter(load(SCENARIOS / path)))
    assert isinstance(item, LoadedScenario), item
    return item.scenario


def test_windows_stay_open_for_the_allowed_lateness():
    table = rows(first("atlas/allowed_lateness_table.yaml"))
    assert table[0] == ["event", "event time", "watermark", "lateness time", "its window", "open windows"]
    assert table[7] == ["e7", "12:05", "12:05", "12:03", "12:05-12:10", "12:00-12:05, 12:05-12:10"]
    assert table[9] == ["e9", "12:04", "12:06", "12:04", "12:00-12:05", "12:00-12:05, 12:05-12:10"]
    assert table[10] == ["e10", "12:07", "12:07", "12:05", "12:05-12:10", "12:05-12:10"]
    assert {row[5] for row in table[1:7]} == {"12:00-12:05"}


def test_the_clock_has_rows_of_its_own():
    table = rows(first("atlas/idle_timeout_table.yaml"))
    assert table[0][0] == "processing time"
    assert [row[:2] + row[3:4] + row[5:] for row in table[5:9]] == [
        ["12:04", "e2", "12:02", "12:00-12:03"],
        ["12:05", "e3", "12:05", "12:03-12:06"],
        ["12:06", "", "12:05", "12:03-12:06"],
        ["12:07", "", "12:06", "12:06-12:09"],
    ]


def test_arrivals_are_beside_the_times_that_events_are_given():
    table = rows(first("azure/illustrated_1_all_policies.yaml"))
    names = ["event", "event time", "arrival time", "device", "System.Timestamp", "watermark", "action"]
    assert table[0] == names
    assert table[3] == ["e3", "12:17", "12:11", "device1", "", "12:06", "early"]
    assert table[6] == ["e6", "12:12", "12:17", "device3", "12:17", "12:17", "adjusted out of order"]
    assert table[12] == ["e12", "12:21", "12:27", "device3", "12:22", "12:21", "adjusted late"]


def test_keys_have_watermarks_of_their_own():
    table = rows(first("azure/illustrated_3_substreams.yaml"))
    assert table[0][5] == "watermark (device)"
    assert table[9][:6] == ["e9", "12:16", "12:21", "device3", "12:16", "12:14"]


def test_there_is_none_where_watermarks_come_with_ticks():
    scenario = first("worked/storm_official_example.yaml")
    assert arrival_table(scenario, replay_locally(scenario)) is None


def test_a_long_one_is_elided():
    steps = [{"event": {"ts": number}} for number in range(500)]
    bolt = {"preset": "atlas", "length": "10s", "tumbling": True, "timestamp_field": "ts"}
    table = rows(read_scenario({"name": "a", "bolt": bolt, "steps": steps}))
    assert len(table) == 122
    assert table[81][0] == "380 more"


def test_times_bear_dates_where_events_are_of_several_days():
    times = [NOON, NOON + 1440 * MINUTE]
    show = TableTimes(times, times)
    assert [show(at) for at in times] == ["01-01 12:00", "01-02 12:00"]
    assert show.windows([(NOON, NOON + MINUTE)]) == "01-01 12:00..01-01 12:01"


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([NOON, NOON + MINUTE], ["12:00", "12:01"]),
        ([NOON, NOON + 1_000_000], ["12:00:00", "12:00:01"]),
        ([NOON, NOON + 1500], ["12:00:00", "12:00:00.001500"]),
        ([NOON, NOON + 2000], ["12:00:00", "12:00:00.002"]),
        ([NOON, NOON + 1440 * MINUTE], ["12:00", "01-02 12:00"]),
        ([1_000, 2_500], ["1", "2.5"]),
    ],
)
def test_times_are_written_with_as_much_as_they_need(times: list[int], shown: list[str]):
    show = TableTimes(times, times[:1])
    assert [show(at) for at in times] == shown
