"""Who admits the events of a bolt follows from the declarations of its settings, for every setting there is."""

from __future__ import annotations

import ast
from dataclasses import fields

from tests.helpers.examples import with_all
from tests.helpers.places import ROOT
from tests.topologies.checkpoints.test_resuming import walked
from tests.topologies.compose import test_every_setting as walk
from topologies.graph.graph import WindowedNode
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.declaration import AdmittedBy

ONLY_WITH_EVENTS = "manager/watermarks.py"
"""The file in which settings are read only where the watermark follows events."""
KINDS = list(walk.KINDS) if with_all() else ["tumbling", "count"]
"""By default some whose tasks hold no events: who admits an event does not depend on the kind."""
ELSEWHERE_TOO = {
    "watermark_interval": "ticks wait for it as well",
    "arrival": "without estimate_arrival it decides about single events only",
    "idle_rule": "says how another setting works, idle_timeout",
    "watermark_imports_beside": "says how another setting works, watermark_imports",
}
"""What these files read although ticks alone do not rule it out, and why."""


def _changed(was: WindowSettings, now: WindowSettings) -> list[str]:
    return [each.name for each in fields(was) if each.compare and getattr(was, each.name) != getattr(now, each.name)]


def _alone() -> dict[str, list[WindowedNode]]:
    """Returns, by setting, bolts whose events would be admitted by the reader, with this setting more."""
    found: dict[str, list[WindowedNode]] = {name: [] for name in DECLARED}
    for names, before, after in walked(walk.Told, KINDS):
        was, now = before.windowed["bolt"], after.windowed["bolt"]
        changed = _changed(was.bolt.settings, now.bolt.settings)
        if len(changed) == 1 and changed[0] in names and not was.admitted_by_tasks and not now.without_queue:
            found[changed[0]].append(now)
    return found


def test_declarations_say_who_admits_and_what_the_watermark_follows() -> None:
    problems, alone = [], _alone()
    for name, declared in DECLARED.items():
        admits = declared.admitted_by
        for node in alone[name]:
            given = getattr(node.bolt.settings, name) != declared.default
            by_task = given and (
                admits is AdmittedBy.TASK_IN_ANY_TIME or (node.event_time and admits is not AdmittedBy.READER)
            )
            if node.admitted_by_tasks != by_task:
                problems.append(f"{name}: admitted by the task, {node.admitted_by_tasks}: {node.bolt.settings}")
            if node.follows_events != (given and node.event_time and admits is AdmittedBy.FOLLOWING_EVENTS):
                problems.append(f"{name}: the watermark follows events, {node.follows_events}: {node.bolt.settings}")
    assert not problems, "\n".join(problems)
    assert {declared.admitted_by for name, declared in DECLARED.items() if alone[name]} == set(AdmittedBy)


def test_what_is_read_only_where_the_watermark_follows_events_makes_it_follow_them() -> None:
    tree = ast.parse((ROOT / ONLY_WITH_EVENTS).read_text(encoding="utf-8"))
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    read = {node.attr for node in attributes if ast.unparse(node.value).endswith("settings")} & set(DECLARED)
    following = {name for name in read if DECLARED[name].admitted_by is AdmittedBy.FOLLOWING_EVENTS}
    assert read - following == set(ELSEWHERE_TOO)
