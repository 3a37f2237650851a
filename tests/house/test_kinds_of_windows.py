"""Kinds of windows say what the engine asks them (decision 83), and their assigners agree."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from policies.assigners import GridWindows
from policies.choose_policies import choose_assigners
from windowing.durations import seconds
from windowing.settings import WindowSettings, kinds
from windowing.settings.kinds import (
    Calendar,
    CountByStart,
    Hopping,
    Lull,
    Meeting,
    Onset,
    Session,
    SlidingLog,
    Snapshot,
    WindowKind,
)
from windowing.settings.rules import How

KINDS = {
    name
    for name in kinds.__all__
    for kind in [getattr(kinds, name)]
    if isinstance(kind, type) and issubclass(kind, WindowKind) and kind is not WindowKind
}

EXAMPLES = (
    Hopping("5m", "1m"), Session("5m"), Session("5m", max_duration="1h"), Snapshot(), SlidingLog("5m"), CountByStart(3),
    Calendar("day", "Europe/Berlin"), Calendar("day", "Europe/Berlin", last=7), Onset(), Lull(seconds(3)),
    *(Meeting(how, 0) for how in get_args(How) if how != "inner"),
)  # fmt: skip


@pytest.mark.parametrize("kind", EXAMPLES, ids=repr)
def test_a_kind_and_its_assigner_give_the_same_answers(kind: WindowKind) -> None:
    (assigner,) = choose_assigners(replace(WindowSettings(), kinds=(kind,)), event_time=True)
    assert assigner.merges == kind.merges
    assert isinstance(assigner, GridWindows) == kind.edges_known
    assert (assigner.anchored(7, 0) != assigner) == kind.takes_offset
    assert assigner.ends_by_time


def test_there_is_an_example_of_each_kind() -> None:
    assert {type(kind).__name__ for kind in EXAMPLES} == KINDS


@pytest.mark.parametrize("kind", EXAMPLES, ids=repr)
def test_every_kind_of_window_is_put_in_words(kind: WindowKind) -> None:
    words = kind.in_words()
    assert words
    assert "(" not in words, words
