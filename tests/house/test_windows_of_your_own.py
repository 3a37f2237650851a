"""The chapter on windows of one's own says what there is: every hook, every field, all that is refused, and why."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, ClassVar

import pytest

from policies.protocol import (
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from tests.helpers.places import ROOT
from topologies.graph import check_windows
from windbolt import Count, TopologyBuilder, TopologyError, TupleWindow, WindowedBolt, spouts
from windbolt.policies import Action
from windbolt.triggers import CountTrigger

CHAPTER = (ROOT / "docs" / "windows-of-your-own.md").read_text(encoding="utf-8")


def table_below(heading: str) -> dict[str, str]:
    """The first two columns of the tables of a section."""
    section = CHAPTER.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|(?: .* \|)?$", section, re.M)
    return dict(rows)


def test_each_refusal_is_in_the_table_with_its_reason() -> None:
    told = {name.replace("`", ""): why.replace("`", "") for name, why in table_below("What goes together").items()}
    refused = {name: why.replace("`", "") for name, (_, why) in check_windows.NOT_WITH_A_POLICY.items()}
    assert {name: told[name] for name in refused} == refused
    others = set(told) - set(refused) - {"with a policy of your own"}
    assert others == {
        "with_message_id_field",
        "a trigger of keys, with_trigger(CountTrigger(...))",
        "with_time(output_time='window start'), with a window_start of your own",
    }
    assert {told[name] for name in others} == set(refused_elsewhere())


def refused_elsewhere() -> list[str]:
    """The reasons for which other checks refuse policies."""

    class Fires(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return True

    class Starts(EvictionPolicy):
        def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
            return Action.PROCESS

        def window_start(self, reference: int) -> int:
            return 0

    class Nothing(WindowedBolt):
        outputs: ClassVar[dict[str, str]] = {}

        def execute(self, window: TupleWindow) -> None:
            return None

    builder = TopologyBuilder("ids")
    builder.set_spout("numbers", spouts.memory("id string, ts timestamp"))
    ids = Nothing().with_window("1m").with_timestamp_field("ts").with_message_id_field("id")
    keys = Nothing().with_key("id").with_time(processing=True).with_trigger(CountTrigger(Count(2)))
    starts = Nothing().with_timestamp_field("ts").with_time(output_time="window start").with_policies(eviction=Starts())
    for name, bolt in {"ids": ids, "keys": keys, "starts": starts}.items():
        builder.set_bolt(name, bolt.with_policies(trigger=Fires())).global_grouping("numbers")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return [each.why for each in raised.value.problems]


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
    for page in ("README.md", "docs/guide.md", "docs/testing.md", "docs/scenarios.md", "docs/coming-from-storm.md"):
        assert "windows-of-your-own.md" in (ROOT / page).read_text(encoding="utf-8"), page
