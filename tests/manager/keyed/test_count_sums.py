"""Windows of a number of events of each key, added up as the events come: rows and accounts are those of a bolt that is
given the events of each window.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.helpers.examples import examples, sampled
from tests.helpers.kept_sums import COLUMNS, assert_as_from_events, most_rows
from topologies.engine import micro_batch
from topologies.graph.describing import topology_text
from windbolt import TopologyBuilder, spouts
from windowing import AggregateBolt, Count
from windowing import aggregates as agg


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "a", "b", None]), st.integers(0, 2), st.integers(-3, 40),
                st.none() | st.integers(-8, 8).map(float), st.none() | st.integers(-5, 5), st.booleans(),
            ),
            min_size=1, max_size=60,
        )
    )  # fmt: skip
    return {
        "slide": draw(st.integers(1, 7)),
        "slides": draw(st.sampled_from([1, 1, 2, 3])),
        "key": True,
        "lateness": "clock",
        "panes": "",
        "by": draw(st.sampled_from([None, (), ("user",), ("user", "shop"), ("shop",)])),
        "tasks": draw(st.integers(1, 3)),
        "dense": draw(st.booleans()),
        "rows": [(at, *row[:5], 0) for at, row in enumerate(rows)],
        "ends": [row[5] for row in rows],
    }


def with_counts(bolt: AggregateBolt, case: dict[str, Any]) -> AggregateBolt:
    slide = case["slide"]
    return bolt.with_window(Count(slide * case["slides"]), Count(slide))


@examples(150)
@given(cases())
def test_rows_and_accounts_are_those_of_windows_of_events(case: dict[str, Any]) -> None:
    rows, _, _ = assert_as_from_events(case, with_counts)
    event(f"{case['slides']} slides: {'rows' if rows else 'no rows'}")


@pytest.mark.parametrize("slides", sampled([1, 4], 2, first=1))
def test_a_window_of_many_events_in_many_batches_is_few_rows(slides: int) -> None:
    """However many events there are: a row of each slide for each segment, and those of the open slide are merged."""
    many = 600
    rows = [(at, "a", 1, at, 1.0, 1, 0) for at in range(many - 1)]
    ends = [at % 6 == 5 for at in range(many - 1)]
    case = {"slide": many // slides, "slides": slides, "key": True, "lateness": "clock", "panes": "",
            "by": None, "tasks": 1, "dense": False, "rows": rows, "ends": ends}  # fmt: skip
    assert most_rows(case, with_counts) <= 3 * micro_batch._FANOUT * slides


def test_describe_says_that_sums_by_window_are_kept() -> None:
    bolt = AggregateBolt(n=agg.count()).with_time(processing=True).with_key("user").with_tumbling_window(Count(3))
    builder = TopologyBuilder("described")
    builder.set_spout("left", spouts.memory(COLUMNS))
    builder.set_bolt("sums", bolt).fields_grouping("left", "user")
    assert "sums by window, no events" in topology_text(builder.build())
