"""Sessions whose events are added up as they come: rows, late events and accounts are those of a bolt that is given the
events of each session.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.helpers.examples import examples, sampled
from tests.helpers.kept_sums import LATENESS, PANES, UNFIT, assert_as_from_events, most_rows
from topologies.engine import micro_batch
from windowing import AggregateBolt
from windowing.settings.kinds import Session


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(-3, 40),
                st.none() | st.integers(-8, 8).map(float), st.none() | st.integers(-5, 5),
                st.integers(0, 9), st.booleans(),
            ),
            min_size=1, max_size=50,
        )
    )  # fmt: skip
    kind = draw(st.sampled_from(["gap", "gap", "touching", "cut", "field"]))
    lateness = draw(st.sampled_from(["clock", *LATENESS]))
    return {
        "gap": draw(st.integers(1, 8)),
        "kind": kind,
        "longest": draw(st.integers(2, 15)),
        "key": draw(st.booleans()) or lateness == "each key",
        "lag": draw(st.integers(0, 12)),
        "by": draw(st.sampled_from([None, (), ("user",), ("user", "shop"), ("shop",)])),
        "tasks": draw(st.integers(1, 3)),
        "dense": draw(st.booleans()),
        "lateness": lateness,
        "panes": "" if kind == "cut" else draw(st.sampled_from(["", *sorted(set(PANES) - UNFIT.get(lateness, set()))])),
        "rows": [(at, *row[:6]) for at, row in enumerate(rows)],
        "ends": [row[6] for row in rows],
    }


def session(case: dict[str, Any]) -> Session:
    gap = f"{case['gap']}ms"
    match case["kind"]:
        case "touching":
            return Session(gap, touching=True)
        case "cut":
            return Session(gap, max_duration=f"{case['longest']}ms")
        case "field":
            return Session(gap, gap_field="gap")
    return Session(gap)


def with_sessions(bolt: AggregateBolt, case: dict[str, Any]) -> AggregateBolt:
    return bolt.with_window(session(case))


@examples(150)
@given(cases())
def test_rows_and_accounts_are_those_of_sessions_of_events(case: dict[str, Any]) -> None:
    _, late, _ = assert_as_from_events(case, with_sessions)
    event(f"{case['lateness']}: {'late events' if late else 'none late'}")


def case_of(rows: list[tuple[str, int]], ends: set[int], **others: Any) -> dict[str, Any]:
    """A case of rows of a key and a time; batches end with these rows."""
    settings: dict[str, Any] = {
        "gap": 5, "kind": "gap", "longest": 9, "key": True, "lag": 0, "by": None, "tasks": 1, "dense": False,
        "lateness": "storm", "panes": "",
    }  # fmt: skip
    made = [(at, key, 1, time, 1.0, 1, 3) for at, (key, time) in enumerate(rows)]
    return {**settings, **others, "rows": made, "ends": [at in ends for at in range(len(made))]}


def test_a_late_event_joins_two_sessions_that_have_fired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both inputs have come to 30, so [0, 5) and [8, 14) have fired."""

    def long(bolt: AggregateBolt) -> AggregateBolt:
        return bolt.with_lateness(by="window", allowed="60ms", by_session=True)

    monkeypatch.setitem(LATENESS, "by session", long)
    rows = [("a", 0), ("a", 8), ("a", 9), ("b", 30), ("b", 30), ("b", 30), ("a", 4)]
    case = case_of(rows, {1, 3, 5, 6}, lateness="by session", panes="retracting")
    found, _, _ = assert_as_from_events(case, with_sessions)
    of_a = [(row["_retract"], row["ids"]) for row in found if row["user"] == "a"]
    assert of_a[-3:] == [(True, [0]), (True, [1, 2]), (False, [0, 6, 1, 2])]


@pytest.mark.parametrize("panes", sampled(["", "discarding"], 2, lambda panes: panes or "none"))
def test_a_session_of_many_events_in_many_batches_is_few_rows(panes: str) -> None:
    """However many events there are: a row for each segment, and these are merged."""
    many = 600
    case = case_of([("a", at) for at in range(many)], set(range(0, many, 6)), panes=panes)
    assert most_rows(case, with_sessions) <= 3 * micro_batch._FANOUT * (2 if panes else 1)
