"""Combinations of settings that no system has, and for which no rule would be right, are refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from windbolt import AggregateBolt, Snapshot, TopologyBuilder, TopologyError, aggregates, replay, spouts


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"sliding_log": "10ms", "idle_timeout": "1s", "late": "adjust"},
            "is to adjust late events, and has with_watermark",
        ),
        (
            {"snapshot": True, "idle_timeout": "1s", "late": "adjust"},
            "is to adjust late events, .* and Snapshot",
        ),
        (
            {"session": {"gap": "5s", "max_duration": "9s"}, "idle_timeout": "1s", "late": "adjust"},
            "is to adjust late events, .* and Session with max_duration",
        ),
        (
            {"length": "10ms", "tumbling": True, "imports": {"s2": "s1"}, "partition_idle_timeout": "1s"},
            "imports watermarks, and has with_watermark",
        ),
        (
            {"session": {"gap": "5s"}, "substreams": "k", "late_by": "window"},
            "a watermark for each key, and judges by window which events of sessions or silences are late",
        ),
        (
            {"length": 2, "sliding": 3, "key": "k", "message_id_field": "m"},
            "windows of a key that leave events out",
        ),
        (
            {"session": {"gap": "5s", "max_duration": "9s"}, "message_id_field": "m"},
            "with_message_id_field\\('m'\\), and sessions with a max_duration",
        ),
        (
            {"length": "5s", "tumbling": True, "panes": {"early": 2, "closes": True}, "message_id_field": "m"},
            "with_message_id_field\\('m'\\), and panes that close their windows",
        ),
    ],
)
def test_what_no_rule_would_answer_is_refused(settings: dict[str, Any], reason: str) -> None:
    bolt = {"timestamp_field": "ts", **settings}
    with pytest.raises(TopologyError, match=reason):
        replay({"name": "refused", "streams": ["s1", "s2"], "bolt": bolt, "steps": []})


def test_ids_in_windows_of_a_count_of_each_key_that_hold_every_event_are_known() -> None:
    bolt = {"timestamp_field": "ts", "length": 3, "sliding": 3, "key": "k", "message_id_field": "m"}
    events = [{"event": {"id": f"e{at}", "ts": at, "k": "a", "m": m}} for at, m in enumerate("1123")]
    answer = replay({"name": "held", "bolt": bolt, "steps": [*events, {"tick": "watermark"}]})
    assert [window["events"] for window in answer.windows] == [["e0", "e2", "e3"]]
    assert answer.counts["duplicate"] == 1


def test_edges_that_are_shuffled_over_tasks_are_refused() -> None:
    builder = TopologyBuilder("edges")
    builder.set_spout("events", spouts.memory("ts timestamp, until timestamp, shape string, k string"))
    bolt = AggregateBolt(n=aggregates.count()).with_window(Snapshot()).with_timestamp_field("ts")
    bolt = bolt.with_lifetime("until", shape_field="shape", edge_key=["k"])
    builder.set_bolt("open", bolt, 2).shuffle_grouping("events")
    with pytest.raises(TopologyError, match=r"has edges, 2 tasks, and reads 'events' by shuffle.*fields_grouping"):
        builder.build()
