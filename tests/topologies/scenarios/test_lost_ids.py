"""Where no column `id` reaches a bolt, which events its windows held is unknown: never nothing, and never expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from topologies.cli.app import app
from topologies.testing.replaying import replay
from windbolt import AggregateBolt, BatchBolt, Topology, TopologyBuilder, WindowedBolt, sinks, spouts
from windbolt import aggregates as agg


class WithoutId(BatchBolt):
    outputs = "value double, ts timestamp"

    def execute(self, batch: pa.Table) -> Any:
        yield batch.select(["value", "ts"])


class WithId(BatchBolt):
    outputs = "id string, value double, ts timestamp"

    def execute(self, batch: pa.Table) -> Any:
        yield batch


class Number(WindowedBolt):
    outputs = "n long, until timestamp"

    def execute(self, window: Any) -> Any:
        yield len(window), window.end


class NumberOfValues(Number):
    reads = "value"


def _topology(bolt: WindowedBolt, clean: BatchBolt, *, after: bool = False) -> Topology:
    builder = TopologyBuilder("values")
    builder.set_spout("source", spouts.memory("id string, value double, ts timestamp"))
    builder.set_bolt("clean", clean).shuffle_grouping("source")
    windows = bolt.with_tumbling_window("10s").with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("values", windows).global_grouping("clean")
    builder.set_sink("out", sinks.memory()).from_("values")
    if after:
        builder.set_bolt("after", Number().with_tumbling_window("20s")).global_grouping("values")
    return builder.build()


BOLTS = {"windows": Number(), "sums": AggregateBolt(n=agg.count(), until=agg.window_end())}
without_id = _topology(Number(), WithoutId())
BOTH = pytest.mark.parametrize("bolt", BOLTS.values(), ids=BOLTS)


def _scenario(expect: dict[str, Any], *ids: str) -> dict[str, Any]:
    names, seconds = ids or ("a", "b", "c", "d"), (1, 21, 1, 25)
    steps: list[dict[str, Any]] = [
        {"event": {"id": name, "value": 1.0, "ts": f"2024-01-01T06:00:{second:02}Z"}, "stream": "source"}
        for name, second in zip(names, seconds, strict=True)
    ]
    steps.insert(2, {"tick": "watermark"})
    return {"name": "one is late", "topology": "values.py:topology", "steps": steps, "expect": expect}


@BOTH
@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ({"late": []}, r"late: expected \[\], found \[null\]"),
        ({"late": ["c"]}, r"late: expected \[c\], found \[null\]"),
        ({"pending": []}, r"pending: expected \[\], found \[null, null\]"),
        ({"windows": [{"end": "2024-01-01T06:00:10Z", "events": []}]}, r"windows\[0\]: events"),
        ({"windows": [{"end": "2024-01-01T06:00:10Z", "events": ["a"]}]}, r"windows\[0\]: events"),
        ({"includes": {"late": ["c"]}}, r"includes.late: expected c, found \[null\]"),
        ({"includes": {"windows": [{"events": ["a"]}]}}, r"includes.windows: expected"),
    ],
)
def test_what_is_expected_of_unknown_ids_is_a_difference_that_says_why(
    bolt: WindowedBolt, expect: dict[str, Any], found: str
) -> None:
    answer = replay(_scenario(expect), _topology(bolt, WithoutId()))
    assert answer.ok is False
    with pytest.raises(AssertionError, match=found):
        raise AssertionError("\n".join(answer.differences))
    assert "no column 'id' reaches 'values'" in answer.differences[0]


@BOTH
def test_what_does_not_ask_for_ids_holds(bolt: WindowedBolt) -> None:
    expect = {"counts": {"received": 4, "windowed": 1, "late": 1, "pending": 2}, "windows": [{"start": 1704088800000}]}
    answer = replay(_scenario(expect), _topology(bolt, WithoutId()))
    answer.check()
    assert (answer.late, answer.pending) == ([None], [None, None])
    assert answer.windows[0]["events"] in ([None], None)


@BOTH
def test_a_bolt_that_passes_the_id_on_keeps_them(bolt: WindowedBolt) -> None:
    expect = {"late": ["c"], "pending": ["b", "d"], "windows": [{"events": ["a"]}]}
    replay(_scenario(expect), _topology(bolt, WithId())).check()


def test_reads_without_the_id_lose_it() -> None:
    answer = replay(_scenario({"late": []}), _topology(NumberOfValues(), WithId()))
    assert "no column 'id' reaches 'values'" in answer.differences[0]


def test_decisions_about_events_without_ids_are_there() -> None:
    expect = {"events": [{"id": name} for name in "abcd"]}
    answer = replay(_scenario(expect), _topology(Number().with_watermark(every=1), WithoutId()))
    assert [(event["id"], event["action"]) for event in answer.events][2] == (None, "late")
    assert "no column 'id' reaches 'values'" in answer.differences[0]


def test_the_picture_says_that_it_does_not_know() -> None:
    drawn = replay(_scenario({"late": []}), without_id).draw()
    assert "in no window" not in drawn
    assert drawn.count("· not known: its id") == 4
    assert "1 event, ids not known" in drawn
    assert "ids not known" in replay(_scenario({}), _topology(BOLTS["sums"], WithoutId())).draw()


def test_rows_of_another_windowed_bolt_need_no_ids() -> None:
    """What happened to the events of the spout is known by the bolt that is given them."""
    answer = replay(_scenario({"late": ["c"]}), _topology(Number(), WithId(), after=True))
    answer.check()
    assert "not known: its id" not in answer.draw()


def test_the_picture_says_where_several_events_have_one_id() -> None:
    same = replay(_scenario({"late": ["s1"]}, "s1", "s1", "s1", "s2"), _topology(Number(), WithId()))
    same.check()
    assert same.draw().count("(id not unique)") == 3


def test_a_record_leaves_out_what_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'{{"value": 1, "ts": "2024-01-01T06:00:{second:02}Z"}}\n' for second in (1, 21, 1)]
    Path("1.jsonl").write_text("".join(rows))
    command = ["replay", "--record", f"{__name__}:without_id", "1.jsonl"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    expect = yaml.safe_load(done.stdout)["expect"]
    assert [sorted(window) for window in expect["windows"]] == [["end", "start"], ["end", "start"]]
    assert expect["outputs"]["out"][0] == {"n": 2, "until": "2024-01-01T06:00:10Z"}
    assert "# No column id reaches values" in done.stdout
