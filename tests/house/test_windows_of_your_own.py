"""The chapter on windows of one's own says what there is: every hook, every field, all that is refused, and why."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from policies.protocol import (
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from tests.helpers.places import ROOT
from windbolt.policies import Action

CHAPTER = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("windows-of-your-own.md", "policy-reference.md")
)


def table_below(heading: str) -> dict[str, str]:
    """The first two columns of the tables of a section."""
    section = CHAPTER.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|(?: .* \|)?$", section, re.M)
    return dict(rows)


def test_every_hook_is_described() -> None:
    hooks = [
        name
        for kind in (EvictionPolicy, TriggerPolicy)
        for name in (*vars(kind), "start")
        if not name.startswith("_") and name not in ("event_time", "every", "offset")
    ]
    described = " ".join(table_below("Every hook"))
    assert [name for name in hooks if f"`{name}" not in described] == []
    assert [each.name for each in Action if each.name not in CHAPTER.split("## A trigger alone")[0]] == []


def test_every_field_is_described() -> None:
    described = " ".join(table_below("Every field"))
    of_contexts = {each.name for kind in (EvictionContext, TriggerContext) for each in fields(kind)}
    assert [name for name in sorted(of_contexts) if f"`{name}`" not in described] == []
    of_events = [name for name in ("number", "timestamp", "stream", "row()") if f"`event.{name}`" not in described]
    assert of_events == []
    assert [
        name
        for name in ("state_types", "reads", "every", "offset", "forget_after", "event_time")
        if f"`{name}`" not in described
    ] == []
    arrays = [name for name in ("numbers", "timestamps") if f"`events.{name}`" not in CHAPTER]
    assert arrays == []
    assert {name for name in QueuedEvents.__slots__ if not name.startswith("_")} == {"numbers", "timestamps"}
    assert {name for name in QueuedEvent.__slots__ if not name.startswith("_")} == {"number", "timestamp"}


def test_the_difference_is_shown_as_it_is_told() -> None:
    section = CHAPTER.split("\n## Prove it\n")[1]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)[-1].split("\n## ")[0]
    shown = re.findall(r"^```text\n(.*?)^```$", section, re.M | re.S)[0]
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)
    assert f"{names['told']}\n" == shown


def test_the_ways_to_the_chapter_are_shown() -> None:
    for page in ("docs/guide.md", "docs/testing.md", "docs/scenarios.md", "docs/coming-from-storm.md"):
        assert "windows-of-your-own.md" in (ROOT / page).read_text(encoding="utf-8"), page
