"""Who admits the events of a bolt follows from the declarations of its settings, for every setting there is."""

from __future__ import annotations

import ast
from dataclasses import fields

import pytest

from tests.helpers.places import ROOT
from tests.topologies.checkpoints.test_resuming import pairs
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.declaration import Admits

ONLY_WITH_EVENTS = ("event_watermarks", "mark_sources", "sequenced_batch")
"""Files of ``manager/watermarks/`` that run only where the watermark follows events."""
ELSEWHERE_TOO = {
    "watermark_interval": "ticks wait for it as well",
    "arrival": "without estimate_arrival it decides about single events only",
    "idle_rule": "says how another setting works, idle_timeout",
    "watermark_imports_beside": "says how another setting works, watermark_imports",
}
"""What these files read although ticks alone do not rule it out, and why."""


def _changed(was: WindowSettings, now: WindowSettings) -> list[str]:
    return [each.name for each in fields(was) if each.compare and getattr(was, each.name) != getattr(now, each.name)]


def _alone(name: str) -> list[WindowedNode]:
    """Bolts whose events would be admitted by the reader, with one setting more."""
    return [
        now
        for was, now, _ in pairs()[name]
        if not was.deferred and not now.holds_events and _changed(was.bolt.settings, now.bolt.settings) == [name]
    ]


@pytest.mark.parametrize("name", DECLARED)
def test_the_declaration_says_who_admits_and_what_the_watermark_follows(name: str) -> None:
    admits, default = DECLARED[name].admits, DECLARED[name].default
    for node in _alone(name):
        given = getattr(node.bolt.settings, name) != default
        by_task = given and (admits is Admits.TASK_IN_ANY_TIME or (node.event_time and admits is not Admits.READER))
        assert node.deferred == by_task, node.bolt.settings
        assert node.sequenced == (given and node.event_time and admits is Admits.FOLLOWING_EVENTS), node.bolt.settings


def test_settings_of_each_sort_are_walked() -> None:
    assert {declared.admits for name, declared in DECLARED.items() if _alone(name)} == set(Admits)


def test_what_is_read_only_where_the_watermark_follows_events_makes_it_follow_them() -> None:
    read = set[str]()
    for file in ONLY_WITH_EVENTS:
        tree = ast.parse((ROOT / "manager" / "watermarks" / f"{file}.py").read_text(encoding="utf-8"))
        read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & set(DECLARED)
    following = {name for name in read if DECLARED[name].admits is Admits.FOLLOWING_EVENTS}
    assert read - following == set(ELSEWHERE_TOO)
