"""Scenario files: what is read and what is refused, how answers are compared, and how runs are drawn."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from topologies.scenarios.replay import compare, judge
from topologies.scenarios.scenario_answer import AnswerEvent, AnswerPane, AnswerWindow, ReplayResult
from topologies.scenarios.scenario_model import LoadedScenario, Problem, Scenario, load, read_scenario
from topologies.scenarios.scenario_values import EventStep
from topologies.scenarios.timeline import timeline
from windbolt import replay
from windowing.durations import Count, Duration
from windowing.errors import ScenarioError
from windowing.settings.rules import Bounds
from windowing.timestamps import FOREVER, parse_end, parse_time, time_in_answer

TEN = {"length": "10s", "tumbling": True, "timestamp_field": "ts"}
SIX = 1_704_088_800_000  # 2024-01-01T06:00:00Z


def given(**changes: Any) -> dict[str, Any]:
    whole = {
        "name": "a",
        "bolt": TEN,
        "steps": [{"event": {"id": "e1", "ts": 1}}, {"tick": "watermark"}],
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def scenario(**changes: Any) -> Scenario:
    return read_scenario(given(**changes))


def problems(**changes: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        scenario(**changes)
    return str(caught.value).split("\n")


def window(
    start: int | None,
    end: int | None,
    events: str,
    new: str | None = None,
    expired: str = "",
    batch: int = 0,
    due: int = FOREVER,
) -> AnswerWindow:
    ids = events.split()
    fresh = ids if new is None else new.split()
    return AnswerWindow(
        batch=batch,
        due=due,
        by_clock=due < FOREVER,
        brackets=("(", "]"),
        start=start,
        end=end,
        events=ids,
        new=fresh,
        expired=expired.split(),
    )


def drawn(of: Scenario, answer: ReplayResult, width: int = 100, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width).print(timeline(of, answer))
    file.flush()
    raw = file.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(encoding)


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "micros"),
        [
            (1000, 1_000_000),
            (-1, -1000),
            (0.001, 1),
            (1700028003000.125, 1_700_028_003_000_125),
            ("2024-01-01T06:00:00Z", SIX * 1000),
            ("2024-01-01T06:00:00", SIX * 1000),
            ("2024-01-01T08:00:00+02:00", SIX * 1000),
            ("2024-01-01T06:00:00.000001Z", SIX * 1000 + 1),
            (datetime(2024, 1, 1, 6, tzinfo=UTC), SIX * 1000),
        ],
    )
    def test_a_time_is_milliseconds_or_iso_8601(self, text, micros):
        assert parse_time(text) == micros

    @pytest.mark.parametrize(
        "bad", [True, None, "soon", "2024-01-01T06:00:00.1234567Z", 0.0001, float("nan"), 2**63, []]
    )
    def test_anything_else_or_finer_than_a_microsecond_is_refused(self, bad):
        with pytest.raises(ScenarioError):
            parse_time(bad)

    @pytest.mark.parametrize("micros", [0, 1, -1, -1500, 1_704_088_800_000_125, FOREVER])
    def test_a_written_time_reads_back(self, micros):
        assert parse_end(json.loads(json.dumps(time_in_answer(micros)))) == micros

    def test_whole_milliseconds_are_written_whole(self):
        assert [repr(time_in_answer(at)) for at in (2000, 1500, -500)] == ["2", "1.5", "-0.5"]
        assert time_in_answer(FOREVER) == "+inf"


class TestScenario:
    def test_settings_become_durations_counts_and_bounds(self):
        bolt = scenario(bolt={"length": 5, "sliding": "10s", "lag": "1ms", "bounds": "[start, end)"}, steps=[]).bolt
        assert bolt is not None
        assert (bolt.length, bolt.sliding) == (Count(5), Duration(10_000_000))
        assert bolt.single_settings == {"lag": Duration(1000), "bounds": Bounds.START}

    def test_what_may_be_left_out_is_filled(self):
        read = scenario(steps=[{"event": {"ts": 1}}, {"tick": "watermark"}, {"event": {"ts": 2, "id": 7}}])
        assert read.streams == ["s1"]
        assert [(step.id, step.stream, step.event["id"]) for step in read.event_steps] == [
            ("e1", "s1", "e1"),
            ("7", "s1", "7"),
        ]

    def test_a_topology_keeps_its_payload_and_names_its_spouts_freely(self):
        steps = [{"event": {"user": "a"}, "stream": "orders"}, {"close": True}]
        read = scenario(bolt=None, topology="my.py:topology", steps=steps)
        assert read.event_steps[0].event == {"user": "a"}
        assert read.event_steps[0].id == "e1"

    @pytest.mark.parametrize("value", [None, "missing"])
    def test_an_event_without_a_time_is_accepted_as_bad_input(self, value):
        event = {"id": "e1"} if value else {"id": "e1", "ts": None}
        read = scenario(steps=[{"event": event}])
        assert read.event_time(read.event_steps[0]) is None

    def test_an_event_outside_the_years_of_the_calendar_has_no_time(self):
        read = scenario(steps=[{"event": {"ts": 10**15}}])
        assert read.event_time(read.event_steps[0]) is None

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"steps": [{"close": True}, {"tick": "wm"}]}, "steps[1].tick: expected watermark, found 'wm'"),
            ({"steps": [{"tock": 1}]}, "steps[0]: expected one of"),
            ({"steps": [{"tick": "watermark", "close": True}]}, "steps[0]: expected one of"),
            ({"steps": [{"crash": False}]}, "steps[0].crash: expected true, found false"),
            ({"steps": [{"event": {"ts": 1}, "id": "e1"}]}, "steps[0].id: unknown key"),
            ({"steps": [{"event": 3}]}, "steps[0].event: expected a mapping, found 3"),
            ({"steps": [{"event": {"ts": "soon"}}]}, "steps[0].event.ts: expected a time, found 'soon'"),
            (
                {"steps": [{"event": {"id": None}}, {"event": {"id": ""}}]},
                "steps[1].event.id: expected a text",
            ),
            (
                {"steps": [{"event": {"id": "e2"}}, {"event": {}}]},
                "steps[1].event.id: 'e2' is the id of steps[0]",
            ),
            ({"steps": [{"event": {}, "stream": "s2"}]}, "steps[0].stream: expected one of s1, found 's2'"),
            ({"streams": ["a", "b"]}, "steps[0].stream: expected one of a, b, found nothing"),
            ({"streams": ["a", "a"]}, "streams: a stream is named twice"),
            (
                {"steps": [{"clock": 9}, {"event": {}, "clock": 8.5}]},
                "steps[1].clock: the clock goes back, from 9 to 8.5",
            ),
            ({"bolt": {"length": 3}}, "steps[0].clock: expected a time, found none yet"),
            (
                {"steps": [{"close": True}, {"close": True}]},
                "steps[1]: nothing can follow the close of steps[0]",
            ),
            ({"bolt": None}, "expected one of bolt, topology and step, found none"),
            ({"topology": "a.py:b"}, "expected one of bolt, topology and step, found bolt and topology"),
            ({"steps": None}, "steps: expected, and not there"),
            ({"name": ""}, "name: expected a text that is not empty, found ''"),
            ({"expcet": {}}, "expcet: unknown key; did you mean 'expect'?"),
            ({"bolt": {**TEN, "slidng": 3}}, "bolt.slidng: unknown key; did you mean 'sliding'?"),
            (
                {"bolt": {**TEN, "past_the_end": True}},
                "bolt.past_the_end: unknown key; did you mean 'closes_after_end'?",
            ),
            ({"bolt": {**TEN, "late_action": "drop"}}, "bolt.late_action: unknown key; did you mean 'late'?"),
            ({"bolt": {"length": "5 parsecs"}}, "bolt.length: '5 parsecs' is not a duration"),
            ({"bolt": {"length": 0}}, "bolt.length: a count of 0"),
            (
                {"bolt": {"length": True}},
                "bolt.length: expected a number of events or a duration, found True",
            ),
            ({"bolt": {**TEN, "sliding": "5s"}}, "bolt: tumbling, and sliding by 5s"),
            (
                {"bolt": {**TEN, "bounds": "()"}},
                "bolt.bounds: expected '(start, end]' or '[start, end)', found '()'",
            ),
            ({"bolt": {**TEN, "tumbling": "yes"}}, "bolt.tumbling: expected true or false, found 'yes'"),
            (
                {"bolt": {**TEN, "watermark_interval": "0s"}},
                "bolt.watermark_interval: expected a duration above zero",
            ),
            ({"bolt": {"timestamp_field": "ts"}}, "bolt: length is missing"),
            ({"bolt": {"length": 5, "snapshot": True}}, "bolt: expected one of length, session, snapshot,"),
            ({"bolt": {"snapshot": True, "tumbling": True}}, "bolt: snapshot with tumbling, which belongs to length"),
            ({"bolt": {"windows": []}}, "bolt: windows: expected some kinds of window, found an empty list"),
            (
                {"bolt": {"windows": [{"tumbling": "5m", "snapshot": True}]}},
                "bolt.windows[0]: expected one of hopping, tumbling, session, snapshot, sliding_log, count_by_start, "
                "calendar, found tumbling, snapshot",
            ),
            (
                {"bolt": {"session": {"gap": "5s", "gab": 1}}},
                "bolt.session: unknown key 'gab', expected some of: gap, touching, max_duration, gap_field",
            ),
            (
                {"bolt": {"calendar": {"unit": "day", "zone": "UTC", "at": [840]}}},
                "bolt.calendar.at: expected a list of times of day, found [840]",
            ),
            (
                {"bolt": {"calendar": {"unit": "decade", "zone": "UTC"}}},
                "bolt.calendar.unit: expected one of hour, day, week, month, quarter, year, found 'decade'",
            ),
            ({"bolt": {**TEN, "preset": "azur"}}, "bolt.preset: expected one of storm, atlas, streaminsight,"),
            (
                {"bolt": {**TEN, "preset": {"azure": {"lat": "5m"}}}},
                "bolt.preset.azure: unknown key 'lat', expected some of: late, out_of_order, early, action,",
            ),
            (
                {"bolt": {**TEN, "preset": {"azure": {"late": "1814400s"}}}},
                "bolt.preset.azure.late: a late tolerance of 21d",
            ),
            (
                {"bolt": {**TEN, "preset": {"streaminsight": {"every": None}}}},
                "bolt: preset: presets.streaminsight without any source of watermarks",
            ),
            ({"bolt": {**TEN, "late": "ignore"}}, "bolt.late: expected 'divert' or 'drop' or"),
            ({"bolt": {**TEN, "watermark_every": 0}}, "bolt.watermark_every: a count of 0"),
            ({"bolt": {**TEN, "key": []}}, "bolt.key: expected a list of columns, found []"),
            ({"bolt": {**TEN, "anchor": "begin"}}, "bolt.anchor: expected a time, found 'begin'"),
            ({"bolt": {**TEN, "edge_key": ["k"]}}, "bolt: edge_key without end_field"),
            ({"bolt": {**TEN, "idle_rule": "max_remaining"}}, "bolt: idle_rule without idle_timeout"),
            ({"bolt": {**TEN, "imports": {"a": "s1"}}}, "bolt.imports: expected streams among s1, found 'a'"),
            (
                {"bolt": {**TEN, "end_field": "end"}, "steps": [{"event": {"ts": 1, "end": "soon"}}]},
                "steps[0].event.end: expected a time, found 'soon'",
            ),
            (
                {"bolt": {**TEN, "key": ["user"]}, "steps": [{"event": {"ts": 1, "user": ["a"]}}]},
                "steps[0].event.user: expected a text, found ['a']",
            ),
            ({"expect": {"events": [{"time": 1}]}}, "expect.events[0].id: expected, and not there"),
            (
                {"expect": {"events": [{"id": "e1", "action": "kept"}]}},
                "expect.events[0].action: expected one of ",
            ),
            ({"expect": {"windows": [{}]}}, "expect.windows[0]: expected a window with some of"),
            (
                {"expect": {"counts": {"recieved": 1}}},
                "expect.counts: expected some of received, windowed, late, early, dropped, duplicate, invalid, "
                "unwindowed, purged, pending, adjusted, truncated, found 'recieved'; did you mean 'received'?",
            ),
            (
                {"expect": {"metrics": {"late": 1}}},
                "expect.metrics: expected some of adjusted, early_input, late_input, out_of_order, truncated, "
                "watermark_delay, ",
            ),
            (
                {"expect": {"windows": [{"new": None}]}},
                "expect.windows[0]: expected a list for new, found null",
            ),
            (
                {"expect": {"counts": {"late": -1}}},
                "expect.counts.late: expected a number that is not negative",
            ),
        ],
    )
    def test_a_mistake_is_named_with_its_place(self, changes, text):
        assert any(line.startswith(text) for line in problems(**changes)), problems(**changes)

    def test_all_mistakes_are_reported_together(self):
        steps = [{"event": {"id": "a", "ts": "x"}}, {"event": {"id": "a"}, "stream": "no"}]
        assert [line.split(":")[0] for line in problems(steps=steps)] == [
            "steps[0].event.ts",
            "steps[1].event.id",
            "steps[1].stream",
        ]

    def test_a_scenario_is_written_as_it_is_read(self):
        bolt = {**TEN, "lag": "5s", "bounds": "[start, end)", "watermark_interval": "1s"}
        steps = [{"event": {"ts": 1}, "clock": 1.5}, {"clock": 2}, {"tick": "watermark"}, {"close": True}]
        expect = {"windows": [{"start": None, "end": "+inf"}], "watermarks": [None, 1.5]}
        read = scenario(bolt=bolt, steps=steps, expect=expect)
        assert read_scenario(json.loads(read.model_dump_json(exclude_unset=True))) == read

    @pytest.mark.parametrize(
        "bolt",
        [
            {"preset": "azure", "snapshot": True},
            {"preset": {"atlas": {"idle_timeout": "1m", "idle_rule": "max_remaining"}}, "length": "5m", "anchor": 5.5},
            {"preset": {"streaminsight": {"every": None, "field": "cti", "policy": "adjust"}}, "count_by_start": 2},
            {"windows": [{"tumbling": "5m"}, {"session": {"gap": "1s", "touching": True}}], "key": ["a", "b"]},
            {"length": "5m", "panes": {"early": 3, "mode": "retracting"}, "late_by": "window", "watermark_every": "5s"},
            {"length": "5m", "panes": {"late": {"any": [2, {"event_time": "5s"}], "once": True}}, "late_by": "window"},
        ],
    )
    def test_so_are_the_settings_of_other_systems(self, bolt):
        read = scenario(bolt=bolt, steps=[], expect={"events": [{"id": "e1", "watermark": "+inf"}]})
        assert read_scenario(json.loads(read.model_dump_json(exclude_unset=True))) == read

    def test_the_clock_may_stand_still(self):
        steps = [{"clock": 5}, {"event": {}}, {"event": {}, "clock": 5}]
        assert len(scenario(bolt={"length": 2}, steps=steps).event_steps) == 2


class TestLoading:
    def read(self, tmp_path: Path, name: str, text: str) -> list[LoadedScenario | Problem]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return list(load(tmp_path / name))

    def test_json_lines_are_read_one_by_one_and_the_good_ones_still_come(self, tmp_path):
        lines = [
            json.dumps(given(name="a\u2028b")),
            "",
            "{",
            json.dumps(given(name=3)),
            json.dumps(given(name="b")),
        ]
        items = self.read(tmp_path, "s.jsonl", "\n".join(lines) + "\n")
        assert [type(item) for item in items] == [LoadedScenario, Problem, Problem, LoadedScenario]
        assert [item.place.line for item in items] == [1, 3, 4, 5]
        assert "s.jsonl:3: expected JSON, found a mistake at column" in str(items[1])
        assert str(items[2]).endswith("s.jsonl:4: name: expected a text, found 3")

    def test_json_holds_one_or_a_list(self, tmp_path):
        assert [type(item) for item in self.read(tmp_path, "one.json", json.dumps(given()))] == [LoadedScenario]
        items = self.read(tmp_path, "list.json", json.dumps([given(), 5, given(name="b")]))
        assert [type(item) for item in items] == [LoadedScenario, Problem, LoadedScenario]
        assert str(items[1]).endswith("list.json[1]: expected a scenario (a mapping with name, bolt, steps), found 5")

    def test_yaml_holds_one_documents_or_a_list(self, tmp_path):
        one = "name: {}\nbolt: {{length: 10s, timestamp_field: ts}}\nsteps: [{{event: {{ts: 1}}}}]\n"
        documents = self.read(tmp_path, "s.yaml", f"{one.format('a')}---\n{one.format('b')}---\n")
        assert [(item.scenario.name, item.place.line) for item in documents if isinstance(item, LoadedScenario)] == [
            ("a", 1),
            ("b", 5),
        ]
        items = self.read(tmp_path, "s.yml", "- {name: a, bolt: {length: 1}, steps: []}\n- {name: b}\n")
        assert isinstance(items[0], LoadedScenario)
        assert ":2[1] (b)" in str(items[1])

    def test_yaml_scalars_are_those_of_json(self, tmp_path):
        event = "{id: e1, ts: 2024-01-01T06:00:00.000001Z, at: 6:00:03, no: no, n: 1e3, name: nan, empty: }"
        text = f"name: a\nbolt: {{length: 10s, timestamp_field: ts}}\nsteps: [{{event: {event}}}]\n"
        (item,) = self.read(tmp_path, "s.yaml", text)
        assert isinstance(item, LoadedScenario), item
        step = item.scenario.event_steps[0]
        assert item.scenario.event_time(step) == SIX * 1000 + 1
        assert {**step.event, "id": 0, "ts": 0} == {
            "id": 0,
            "ts": 0,
            "at": "6:00:03",
            "no": "no",
            "n": 1000.0,
            "name": "nan",
            "empty": None,
        }

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("s.yaml", "name: [", "expected YAML, found a mistake at line 1"),
            ("s.yaml", "name: a\nname: b\n", "line 2, column 1: the key 'name' twice in one mapping"),
            ("s.yaml", "a: !!python/object/apply:os.getcwd []", "expected YAML, found a mistake"),
            ("s.json", '{"name": "a", "name": "b"}', "the key 'name' twice in one mapping, at line 1, column 15"),
            ("s.json", '{"name": NaN}', "NaN, which is not a number of JSON"),
            ("s.json", "[" * 200_000, "expected JSON, found"),
            ("s.json", "  ", "expected a scenario, found an empty file"),
            ("s.yaml", "# nothing\n", "expected a scenario, found an empty file"),
            ("s.txt", "", "expected a file that ends in one of .yaml, .yml, .json, .jsonl, found .txt"),
        ],
    )
    def test_a_malformed_file_is_one_problem(self, tmp_path, name, text, problem):
        (item,) = self.read(tmp_path, name, text)
        assert isinstance(item, Problem)
        assert problem in str(item)

    def test_a_file_that_is_missing_or_no_text_is_a_problem(self, tmp_path):
        (tmp_path / "b.json").write_bytes(b"\xff")
        (tmp_path / "d.json").mkdir()
        for name in ("a.json", "b.json", "d.json"):
            (item,) = load(tmp_path / name)
            assert isinstance(item, Problem)


class TestComparison:
    answer = ReplayResult(
        "a",
        windows=[window(0, 10_000, "e1 e2"), window(10_000, 20_500, "e3", "e3", "e1 e2")],
        late=["e4"],
        watermarks=[None, 20_500],
        pending=["e6", "e5"],
        counts={"received": 6, "windowed": 3, "late": 1, "pending": 2, "dropped": 0},
        outputs={"out": [{"n": 1, "at": datetime(2024, 1, 1, 6, tzinfo=UTC), "sum": 0.1 + 0.2}]},
    )
    whole: ClassVar[dict[str, Any]] = {
        "windows": [
            {"start": 0, "end": 10, "events": ["e1", "e2"], "new": ["e1", "e2"], "expired": []},
            {"end": 20.5, "events": ["e3"]},
        ],
        "late": ["e4"],
        "watermarks": [None, 20.5],
        "pending": ["e5", "e6"],
        "counts": {"received": 6, "windowed": 3, "late": 1, "pending": 2},
        "outputs": {"out": [{"n": 1, "at": "2024-01-01T06:00:00Z", "sum": 0.3}], "quiet": []},
    }

    def differences(self, **expect: Any) -> list[str]:
        return compare(scenario(expect=expect), self.answer)

    def test_what_was_expected_is_no_difference(self):
        assert self.differences(**self.whole) == []
        assert judge(scenario(expect=self.whole), self.answer).ok is True

    @pytest.mark.parametrize("expect", [None, {}])
    def test_a_scenario_that_expects_nothing_has_no_verdict(self, expect):
        assert judge(scenario(expect=expect), self.answer).ok is None

    @pytest.mark.parametrize(
        ("expect", "texts"),
        [
            (
                {"windows": [{"end": 10, "events": ["e1"]}, {"end": 20.5}]},
                ["windows[0]: events: expected {end: 10, events: [e1]}, found {end: 10, events: [e1, e2]}"],
            ),
            (
                {"windows": [{"end": 10}]},
                ["windows[1]: fired, but not expected: {start: 10", "windows: expected 1, found 2"],
            ),
            (
                {"windows": [{"end": 20.5}]},
                ["windows[0]: fired, but not expected: {start: 0", "windows: expected 1"],
            ),
            (
                {"windows": [{"end": 10}, {"end": 15}, {"end": 20.5}]},
                [
                    "windows[1]: expected {end: 15}, not fired; the next that did is",
                    "windows: expected 3, found 2",
                ],
            ),
            (
                {"windows": [{"end": 10}, {"end": 20.5}, {"end": "+inf"}]},
                ['windows[2]: expected {end: "+inf"}, not fired', "windows: expected 3, found 2"],
            ),
            ({"windows": [{"task": 0}, {"end": 20.5}]}, ["windows[0]: task: expected {task: 0}, found {}"]),
            ({"late": []}, ["late: expected [], found [e4]"]),
            ({"watermarks": [20.5]}, ["watermarks: expected [20.5], found [null, 20.5]"]),
            ({"pending": ["e5"]}, ["pending: expected [e5], found [e5, e6]"]),
            (
                {"counts": {"received": 6, "windowed": 3, "early": 1, "pending": 0}},
                ["counts.early: expected 1, found 0", "counts.pending: expected 0, found 2"],
            ),
            (
                {"outputs": {}},
                ["outputs.out[0]: expected nothing, found {n: 1", "outputs.out: expected 0 rows, found 1"],
            ),
            ({"outputs": {"out": [{"n": True}]}}, ["outputs.out[0]: expected {n: true}, found {n: 1"]),
        ],
    )
    def test_what_is_missing_extra_or_other_is_a_difference(self, expect, texts):
        found = self.differences(**expect)
        assert len(found) == len(texts), found
        for text, difference in zip(texts, found, strict=True):
            assert difference.startswith(text)
        assert judge(scenario(expect=expect), self.answer).ok is False

    marked = ReplayResult(
        "a",
        windows=[
            {
                **window(0, 10_000, "e1"),
                "kind": 1,
                "key": ["x", 2],
                "pane": AnswerPane(index=0, timing="early", last=False),
            }
        ],
        events=[
            AnswerEvent(id="e1", time=1000, action="accepted", watermark=1000, mark=1000),
            AnswerEvent(id="e2", time=None, action="early", watermark=1000, mark=None),
        ],
        clocks=[None, 1500],
        metrics={"late_input": 1, "watermark_delay": 0.5},
    )

    @pytest.mark.parametrize(
        "expect",
        [
            {"events": [{"id": "e1", "time": 1, "watermark": 1}, {"id": "e2", "time": None, "action": "early"}]},
            {"events": [{"id": "e1"}, {"id": "e2", "mark": None}], "clocks": [None, 1.5]},
            {"metrics": {"watermark_delay": 0.5}},
            {"windows": [{"kind": 1, "key": ["x", 2], "pane": {"timing": "early"}}]},
        ],
    )
    def test_events_clocks_metrics_and_panes_are_compared_on_what_is_given(self, expect):
        assert compare(scenario(expect=expect), self.marked) == []

    @pytest.mark.parametrize(
        ("expect", "texts"),
        [
            (
                {"events": [{"id": "e1", "time": 2}, {"id": "e2"}]},
                ["events[0]: expected {id: e1, time: 2}, found {id: e1, time: 1}"],
            ),
            (
                {"events": [{"id": "e2"}, {"id": "e1"}]},
                ["events[0]: expected {id: e2}, found {id: e1}"],
            ),
            ({"events": [{"id": "e1"}]}, ["events: expected 1, found 2"]),
            (
                {"events": [{"id": "e1"}, {"id": "e2", "watermark": None}]},
                ["events[1]: expected {id: e2, watermark: null}, found {id: e2, watermark: 1}"],
            ),
            ({"clocks": [1.5]}, ["clocks: expected [1.5], found [null, 1.5]"]),
            (
                {"metrics": {"late_input": 0, "adjusted": 0}},
                ["metrics.late_input: expected 0, found 1", "metrics.adjusted"],
            ),
            ({"windows": [{"pane": {"timing": "late"}}]}, ["windows[0]: pane: expected {pane: {timing: late}}, found"]),
            ({"windows": [{"kind": 0}]}, ["windows[0]: kind: expected {kind: 0}, found {kind: 1}"]),
        ],
    )
    def test_what_is_other_among_them_is_a_difference(self, expect, texts):
        found = compare(scenario(expect=expect), self.marked)
        assert len(found) == len(texts), found
        for text, difference in zip(texts, found, strict=True):
            assert difference.startswith(text)

    def test_they_are_on_paper_too(self):
        paper = json.loads(json.dumps(self.marked.to_json()))
        assert paper["events"][1] == {"id": "e2", "time": None, "action": "early", "watermark": 1, "mark": None}
        assert (paper["clocks"], paper["metrics"]) == ([None, 1.5], {"late_input": 1, "watermark_delay": 0.5})
        assert paper["windows"][0]["pane"] == {"index": 0, "timing": "early", "last": False}
        assert (paper["windows"][0]["kind"], paper["windows"][0]["key"]) == (1, ["x", 2])

    def test_the_answer_on_paper_is_json_in_milliseconds(self):
        keyed: AnswerWindow = {**window(None, FOREVER, "e1"), "task": 1, "key": Decimal("1.50")}
        paper = ReplayResult("a", windows=[keyed], watermarks=[1500, None], outputs=self.answer.outputs).to_json()
        assert json.loads(json.dumps(paper, allow_nan=False)) == {
            "name": "a",
            "ok": None,
            "windows": [
                {
                    "start": None,
                    "end": "+inf",
                    "events": ["e1"],
                    "new": ["e1"],
                    "expired": [],
                    "task": 1,
                    "key": "1.50",
                }
            ],
            "late": [],
            "watermarks": [1.5, None],
            "pending": [],
            "counts": {},
            "outputs": {"out": [{"n": 1, "at": SIX, "sum": 0.1 + 0.2}]},
            "events": [],
            "clocks": [],
            "metrics": {},
        }


class TestTimeline:
    def storm(self) -> tuple[Scenario, ReplayResult]:
        """The example of Storm's documentation, shortened to its first tick, with a late event after it."""
        steps = [{"event": {"ts": SIX + 1000 * second}} for second in (3, 5, 7, 18, 26, 36)]
        bolt = {"length": "20s", "sliding": "10s", "timestamp_field": "ts", "lag": "5s"}
        run = scenario(bolt=bolt, steps=[*steps, {"tick": "watermark"}, {"event": {"ts": SIX}}])
        at = [(SIX + 1000 * second) * 1000 for second in (-10, 0, 10, 20, 30, 31)]
        windows = [
            window(at[0], at[2], "e1 e2 e3"),
            window(at[1], at[3], "e1 e2 e3 e4", "e4"),
            window(at[2], at[4], "e4 e5", "e5", "e1 e2 e3"),
        ]
        return run, ReplayResult("a", windows=windows, late=["e7"], watermarks=[at[5]], pending=["e6"])

    def test_windows_stand_below_the_tick_that_fired_them_with_what_is_new_and_expired(self):
        lines = drawn(*self.storm()).splitlines()
        tick = next(number for number, line in enumerate(lines) if line.startswith("tick"))
        assert "watermark 06:00:31" in lines[tick]
        assert [line.split()[0] for line in lines[tick + 1 : tick + 4]] == ["#0", "#1", "#2"]
        assert lines[tick + 3].rstrip().endswith("e4 +e5 -e1 -e2 -e3")
        assert "(06:00:10..06:00:30]" in lines[tick + 3]
        assert lines[tick + 3].count("◇") == 3

    def test_late_and_pending_events_are_marked_without_colour(self):
        lines = {line.split()[0]: line for line in drawn(*self.storm()).splitlines() if line.strip()}
        assert lines["e7"].rstrip().endswith("✗ late")
        assert lines["e6"].rstrip().endswith("○ pending")

    def test_an_event_stands_left_of_the_watermark_that_it_missed(self):
        line = next(line for line in drawn(*self.storm()).splitlines() if line.startswith("e7"))
        assert line.index("✗") < line.index("┊")

    @pytest.mark.parametrize("width", [30, 60, 100, 160])
    @pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
    def test_it_fits_any_width_and_a_terminal_of_ascii(self, width, encoding):
        assert max(map(len, drawn(*self.storm(), width, encoding).splitlines())) <= width

    def test_differences_stand_below(self):
        run, answer = self.storm()
        wrong = scenario(bolt=TEN, steps=run.model_dump()["steps"], expect={"late": []})
        text = drawn(wrong, judge(wrong, answer))
        assert "✗ not as expected" in text
        assert "late: expected [], found [e7]" in text

    def test_count_windows_of_the_clock_are_drawn_in_the_order_of_arrival(self):
        run = scenario(bolt={"length": 2, "tumbling": True}, steps=[{"event": {}, "clock": 5} for _ in range(5)])
        windows = [window(None, None, "e1 e2", due=5), window(None, None, "e3 e4", "e3 e4", "e1 e2", due=5)]
        lines = drawn(run, ReplayResult("a", windows=windows, pending=["e5"])).splitlines()
        assert [line.split()[0] for line in lines if line.startswith(("e", "  #"))] == [
            "e1",
            "e2",
            "#0",
            "e3",
            "e4",
            "#1",
            "e5",
        ]

    def test_time_windows_of_the_clock_fire_before_the_event_that_moves_it(self):
        steps = [{"event": {}, "clock": 5}, {"event": {}, "clock": 10}, {"event": {}, "clock": 11}]
        run = scenario(bolt={"length": "10ms", "tumbling": True}, steps=steps)
        lines = drawn(run, ReplayResult("a", windows=[window(0, 10_000, "e1 e2", due=10_001)])).splitlines()
        assert [line.split()[0] for line in lines if line.startswith(("e", "  #"))] == [
            "e1",
            "e2",
            "#0",
            "e3",
        ]

    def test_a_long_run_is_elided_with_a_count(self):
        run = scenario(steps=[{"event": {"ts": number}} for number in range(500)])
        text = drawn(run, ReplayResult("a"))
        assert "380 events not drawn" in text
        assert len(text.splitlines()) < 140

    def test_outputs_of_a_topology_are_tables(self):
        run = scenario(bolt=None, topology="a.py:b", steps=[{"event": {"n": 1}, "stream": "s"}, {"close": True}])
        text = drawn(run, ReplayResult("a", outputs={"out": [{"n": n, "user": "[b]"} for n in range(30)], "none": []}))
        assert "out: 30 rows, the first 20" in text
        assert "[b]" in text
        assert "none: 0 rows" in text

    def test_the_accounts_are_shown_as_the_sum_that_they_are(self):
        run, _ = self.storm()
        counts = {"received": 7, "windowed": 5, "late": 1, "pending": 1, "adjusted": 2}
        assert "received 7 = 5 windowed + 1 late + 1 pending; 2 adjusted" in drawn(
            run, ReplayResult("a", counts=counts)
        )

    def test_an_answer_that_does_not_suit_the_steps_is_drawn_all_the_same(self):
        run = scenario(steps=[])
        text = drawn(run, ReplayResult("a", windows=[window(0, 10_000, "ghost")], watermarks=[1, 2, 3]))
        assert "end of run" in text
        assert "+ghost" in text


def test_steps_are_known_by_their_keys():
    steps = [{"event": {}, "clock": 1}, {"tick": "watermark"}, {"clock": 2}, {"crash": True}, {"close": True}]
    read = scenario(steps=steps)
    names = ["EventStep", "TickStep", "ClockStep", "CrashStep", "CloseStep"]
    assert [type(step).__name__ for step in read.steps] == names
    assert isinstance(read.steps[0], EventStep)


def test_what_replay_returns_has_the_values_that_json_has() -> None:
    steps: list[Any] = [{"event": {"id": f"e{at}", "ts": ts}} for at, ts in enumerate((1, 2.5, 30))]
    bolt = {"length": "10ms", "sliding": "2500us", "timestamp_field": "ts", "watermark_every": 1}
    found = replay({"name": "units", "bolt": bolt, "steps": [*steps, {"tick": "watermark"}, {"close": True}]})
    assert [(window["start"], window["end"]) for window in found.windows][:2] == [(-7.5, 2.5), (-5, 5)]
    assert found.watermarks == [30]
    assert [event["time"] for event in found.events] == [1, 2.5, 30]
    assert found.to_json()["windows"] == found.windows
