"""What is said of policies of a user's own: errors, accounts, the state, why; and where their state is moved to."""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from manager.keyed.key_states import KeyStates
from manager.keyed.retained_events import RetainedEvents
from manager.policy_walks import UnitRecord
from manager.policy_windows import PolicyWindows
from policies import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
)
from tests.helpers.places import ROOT
from tests.topologies.engine.test_own_policies import Cut, Row, Show, run, topology_of
from topologies.checkpoints.why import why
from topologies.cli.displays import print_summary
from topologies.page.site import StoredRun
from topologies.testing.policy_check import check_policy
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts, state
from windowing import (
    BoltError,
    Count,
    Duration,
    Emit,
    Panes,
    Session,
    TopologyError,
    TupleWindow,
    Union,
    minutes,
    seconds,
)
from windowing.bolts.bolt import check_types
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError, WindboltError
from windowing.settings.rules import Bounds
from windowing.settings.triggers import CountTrigger

ROWS: list[Row] = [
    {"id": place, "key": place % 2, "value": value, "ts": 1_000 * place}
    for place, value in enumerate([1, 2, 9, 4, 9, 5, 6, 7])
]


class OnNine(TriggerPolicy):
    """Fires with every nine, and counts."""

    state_types: ClassVar[dict[str, type]] = {"events": int}

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        context.state["events"] += 1
        return event["value"] == 9


class All(EvictionPolicy):
    """Every event is in every window."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Any:
        return Action.PROCESS


def timed(bolt: WindowedBolt | None = None, **policies: Any) -> WindowedBolt:
    return (bolt or Show()).with_timestamp_field("ts").with_policies(**policies)


# ---- the events that an eviction is asked about (findings 1 and 2)


def test_an_eviction_is_asked_about_events_up_to_the_firing_one_and_none_beyond() -> None:
    bolt = timed(trigger=OnNine(), eviction=All())
    for cut in ([], [1] * 8, [3, 3]):
        assert [row["held"] for row in run(bolt, ROWS, Cut(cut))] == [[0, 1, 2], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("bounds", Bounds)
def test_a_built_in_length_of_time_holds_what_it_says_of_each_event(bounds: Bounds) -> None:
    class EventByEvent(WatermarkTimeEvictionPolicy):
        def evict(self, event: Any, context: EvictionContext) -> Action:
            return super().evict(event, context)

    class EachTwoSeconds(TriggerPolicy):
        every = seconds(2)

        def on_time(self, time: int, context: TriggerContext) -> Any:
            return True

    triggers: list[TriggerPolicy] = [OnNine(), EachTwoSeconds()]
    for trigger in triggers:
        held, wanted = (
            [row["held"] for row in run(timed(trigger=trigger, eviction=kind(seconds(2), bounds)), ROWS, Cut([2]))]
            for kind in (WatermarkTimeEvictionPolicy, EventByEvent)
        )
        assert held == wanted
        assert max(map(len, held)) == 2


def test_an_eviction_that_is_told_on_arrays_has_the_number_of_events_so_far() -> None:
    counted: list[int] = []

    class Counting(All):
        def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
            counted.append(context.count)
            assert context.count == events.numbers[-1] + 1

    run(timed(trigger=OnNine(), eviction=Counting()), ROWS, Cut([]))
    assert counted == [3, 5]


def test_with_an_eviction_alone_the_ends_do_not_depend_on_the_cut() -> None:
    rows = [{**row, "ts": 9_000 * row["id"]} for row in ROWS]
    bolt = timed(Show().with_window("1m", "20s"), eviction=All())
    found = [run(bolt, rows, Cut(cut)) for cut in ([], [1] * 8, [5])]
    assert found[0] == found[1] == found[2]
    assert [row["ends"] // 1_000_000 for row in found[0]] == [0, 20, 40, 60, 80]


def test_the_number_of_an_event_is_the_same_in_all_hooks_after_others_have_expired() -> None:
    @dataclass(frozen=True)
    class Marked(EvictionPolicy):
        state_types: ClassVar[dict[str, type]] = {"marked": list}

        def track(self, event: QueuedEvent, context: EvictionContext) -> None:
            if event["value"] in (2, 4, 5):
                context.state["marked"] = [*context.state["marked"], event.number]

        def evict(self, event: QueuedEvent, context: EvictionContext) -> Any:
            assert event.number == event["id"]
            return Action.PROCESS if event.number in context.state["marked"] else Action.EXPIRE

    for cut in ([], [1] * 8):
        found = run(timed(trigger=OnNine(), eviction=Marked()), ROWS, Cut(cut))
        assert [row["held"] for row in found] == [[1], [1, 3]]


def test_an_event_at_the_very_watermark_comes_before_the_moment_of_that_time() -> None:
    class EachFive(TriggerPolicy):
        every = seconds(5)

        def on_time(self, time: int, context: TriggerContext) -> bool:
            return True

    rows = [{"id": place, "key": 0, "value": 0, "ts": ts} for place, ts in enumerate([3_000, 10_000, 5_000, 16_000])]
    bolt = timed(trigger=EachFive(), eviction=All()).with_lag(seconds(5))
    for cut in ([], [1] * 4, [2]):
        assert [row["held"] for row in run(bolt, rows, Cut(cut))][:2] == [[0, 2], [0, 2, 1]]


def test_both_policies_are_told_of_each_event_once_and_in_order_however_the_input_is_cut() -> None:
    class Told(TriggerPolicy):
        state_types: ClassVar[dict[str, type]] = {"told": list}

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            context.state["told"].append(event["id"])
            assert context.state["told"] == list(range(context.count)), context
            return event.number % 3 == 1

    class ToldToo(All):
        state_types: ClassVar[dict[str, type]] = {"told": list}

        def track(self, event: QueuedEvent, context: EvictionContext) -> None:
            context.state["told"].append(event["id"])

        def evict(self, event: QueuedEvent, context: EvictionContext) -> Any:
            assert context.state["told"] == list(range(context.count)), context
            return Action.PROCESS

    for cut in ([], [1] * 8, [3, 1]):
        assert len(run(timed(trigger=Told(), eviction=ToldToo()), ROWS, Cut(cut))) == 3


def test_on_arrays_the_end_of_a_window_does_not_go_back_after_a_flush() -> None:
    class Every(TriggerPolicy):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.ones(len(events), np.bool_)

        def on_arrival(self, event: QueuedEvent) -> bool:
            return bool(event["value"] == 9)

    values = [(9, 5_000), (0, 3_000)]
    rows = [{"id": place, "key": 0, "value": value, "ts": ts} for place, (value, ts) in enumerate(values)]
    for cut in ([], [1]):
        found = run(timed(trigger=Every(), eviction=All()).with_lag(seconds(9)), rows, Cut(cut))
        assert [(row["ends"], row["held"]) for row in found] == [
            (5_000_000, [0]),
            (5_000_000, [0]),
            (5_000_000, [1, 0]),
        ]


# ---- the end of the streams (finding 5)


def test_at_the_end_of_the_streams_moments_pass_and_a_trigger_is_told() -> None:
    class Pause(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            context.wake_at = event.timestamp + 2_500_000
            return False

        def on_time(self, time: int, context: TriggerContext) -> bool:
            return True

    class AtTheEnd(TriggerPolicy):
        def on_end(self, context: TriggerContext) -> bool:
            return context.count > context.fired_count

    (pause,) = run(timed(trigger=Pause(), eviction=All()), ROWS, Cut([]))
    (end,) = run(timed(trigger=AtTheEnd(), eviction=All()), ROWS, Cut([4]))
    assert (pause["ends"], end["ends"]) == (9_500_000, 7_000_000)
    assert pause["held"] == end["held"] == list(range(8))


@pytest.mark.parametrize("later", [None, 9_999_000_000])
def test_at_the_end_a_moment_that_another_one_has_replaced_does_not_pass(later: int | None) -> None:
    """As while events come: a minute passes first, and takes back what was asked for behind it."""

    class Moved(TriggerPolicy):
        every = seconds(60)

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            context.wake_at = 90_000_000
            return False

        def on_time(self, time: int, context: TriggerContext) -> bool:
            context.wake_at = later
            return True

    fired = run(timed(trigger=Moved(), eviction=All()), ROWS, Cut([4]))
    assert [window["ends"] for window in fired] == [0, 60_000_000]


class Rebinding(TriggerPolicy):
    """Counts in a new dict each time."""

    state_types: ClassVar[dict[str, type]] = {"events": int}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state = {"events": context.state["events"] + 1}
        return bool(context.state["events"] % 2 == 0)


class RebindingEviction(EvictionPolicy):
    """Holds the events since every other window; counts windows in a new dict each time."""

    state_types: ClassVar[dict[str, type]] = {"windows": int}

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if context.state["windows"] % 2 else Action.KEEP

    def reset(self, context: EvictionContext) -> None:
        context.state = {"windows": context.state["windows"] + 1}


class OwnList(TriggerPolicy):
    """Begins with a list that belongs to the policy."""

    state_types: ClassVar[dict[str, type]] = {"seen": list}

    def __init__(self) -> None:
        self.first = [0]

    def start(self, state: dict[str, Any]) -> None:
        state["seen"] = self.first

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["seen"].append(event["id"])
        return len(context.state["seen"]) % 3 == 0


@pytest.mark.parametrize(
    "policies",
    [
        {"trigger": Rebinding(), "eviction": All()},
        {"trigger": Rebinding(), "eviction": RebindingEviction()},
        {"trigger": OwnList(), "eviction": All()},
    ],
)
@pytest.mark.parametrize("key", [(), ("key",)])
def test_a_state_is_kept_of_each_key_alone_also_where_another_dict_or_list_is_put_there(
    policies: dict[str, Any], key: tuple[str, ...]
) -> None:
    bolt = timed(Show().with_key(*key) if key else None, **policies)
    whole = run(bolt, ROWS, Cut([]))
    assert whole
    assert run(bolt, ROWS, Cut([1, 2, 3, 4, 5, 6, 7])) == whole


class OddOnArrays(TriggerPolicy):
    """Fires with each odd number; a number that is not there is even."""

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        values = events["value"]
        return (np.nan_to_num(values) if values.dtype.kind == "f" else values).astype(np.int64) % 2 == 1


class TrueOnArrays(EvictionPolicy):
    """Holds the events that are not false; the others wait."""

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        return np.where(~events["good"], Action.KEEP, Action.PROCESS)


def test_on_arrays_the_values_of_a_key_do_not_depend_on_the_nulls_of_another() -> None:
    """As floats, numbers beyond 2 ** 53 are even; and ~ of a truth value that is an object is true."""
    large = 2**53 + 1
    rows = pa.table(
        {
            "id": range(6),
            "key": ["a", "b"] * 3,
            "value": pa.array([large, None, large + 2, None, large + 1, None]),
            "good": [True, None, False, None, True, None],
            "ts": range(6),
        }
    )
    for extra in ({"trigger": OddOnArrays()}, {"trigger": OddOnArrays(), "eviction": TrueOnArrays()}):
        check = check_policy(
            rows, key="key", window=None if "eviction" in extra else "1h", other_process=False, **extra
        )
        held = [[event["id"] for event in window.events] for window in check.windows]
        assert held == ([[0], [0, 2]] if "eviction" not in extra else [[0], [0]])


# ---- errors (finding 6)


def failing(**policies: Any) -> str:
    with pytest.raises(BoltError) as caught:
        run(timed(**policies), ROWS, Cut([2]))
    return str(caught.value)


def trigger_of(track: Callable[[Any, QueuedEvent, TriggerContext], Any]) -> TriggerPolicy:
    kind = type("Mine", (OnNine,), {"track": track})
    made: TriggerPolicy = kind()
    return made


def test_an_exception_of_a_policy_names_policy_bolt_task_event_and_line() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return event["valu"] == 9 if event.number == 2 else False

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "bolt 'show' failed in track of Mine(), task 0: event 2 at 1970-01-01T00:00:02Z, in batch 1" in said
    assert "KeyError: 'valu'; did you mean 'value'?" in said
    assert "test_own_policies_said.py:" in said
    assert "in track" in said


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "it answered None (NoneType); the answers are True, False and Fire.BEFORE"),
        (np.True_, "(bool"),
        (1, "it answered 1 (int)"),
    ],
)
def test_a_wrong_answer_of_a_trigger_is_an_error(answer: Any, words: str) -> None:
    said = failing(trigger=trigger_of(lambda self, event, context: answer), eviction=All())
    assert words in said
    assert "test_own_policies_said.py:" in said


def test_a_wrong_answer_of_an_eviction_is_an_error() -> None:
    class Wrong(EvictionPolicy):
        def evict(self, event: QueuedEvent, context: EvictionContext) -> Any:
            return True

    said = failing(trigger=OnNine(), eviction=Wrong())
    assert "failed in evict of " in said
    assert "it answered True (bool), which is no Action: use Action.EXPIRE, PROCESS, KEEP or STOP" in said


SHARED = [1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1, 2}, "context.state['seen'] is a set {1, 2}, and state_types declares list"),
        ([{3}], "context.state['seen'][0] is a set {3}, which JSON does not have"),
        ([{1: 2}], "context.state['seen'][0] has the key 1 (a int), and keys are kept as texts"),
        ([{None: 2}], "context.state['seen'][0] has the key None (a NoneType), and keys are kept as texts"),
        ([SHARED, [SHARED]], "context.state['seen'][1][0] is the same list as context.state['seen'][0]"),
        (["\ud83d" + "\ude00"], "two halves of a character that JSON would make one"),
        ([{"\ud83d" + "\ude00": 1}], "two halves of a character that JSON would make one"),
        ([(1, 2)], "context.state['seen'][0] is a tuple (1, 2), which JSON does not have"),
        ([np.int64(3)], "context.state['seen'][0] is a int64 np.int64(3), which JSON does not have"),
    ],
)
def test_a_state_that_cannot_be_stored_names_the_key_and_its_type(value: Any, words: str) -> None:
    class Seen(OnNine):
        state_types: ClassVar[dict[str, type]] = {"seen": list, "events": int}

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            context.state["seen"] = value
            return False

    said = failing(trigger=Seen(), eviction=All())
    assert words in said
    assert "with the state of" in said
    assert "test_own_policies_said.py:" in said


def test_a_state_that_is_not_declared_is_an_error() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        context.state["other"] = 1
        return False

    words = "context.state has 'other', which state_types does not declare"
    assert words in failing(trigger=trigger_of(track), eviction=All())


def test_a_state_that_a_hook_has_deleted_is_an_error() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        context.state.clear()
        return False

    assert "context.state lacks 'events' of state_types" in failing(trigger=trigger_of(track), eviction=All())


def test_a_misspelt_state_is_said_with_the_states_and_not_with_columns() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return context.state["event"] > 3

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "KeyError: 'event'" in said
    assert "Mine.state_types declares events" in said
    assert "columns of an event" not in said


def test_a_misspelt_state_is_found_behind_another_name_and_in_a_function() -> None:
    def past(kept: dict[str, Any], name: str) -> bool:
        return bool(
            kept[
                name
            ] > 3
        )  # fmt: skip

    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        """Names that say nothing, and characters of several bytes before them."""
        return "größer" and past(context.state, "event")

    def track_and_wake(self: Any, event: QueuedEvent, given: TriggerContext) -> Any:
        memory = given.state; return "ö" and memory["event"]  # fmt: skip  # noqa: E702

    for hook in (track, track_and_wake):
        assert "Mine.state_types declares events" in failing(trigger=trigger_of(hook), eviction=All())


class Starting(OnNine):
    def start(self, state: dict[str, Any]) -> None:
        state["events"] = state["evnts"] + 1


class Keeping(OnNine):
    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        self.context = context
        return self.fires()

    def fires(self) -> Any:
        return self.context.state["evnts"]


@pytest.mark.parametrize("policy", [Starting(), Keeping()], ids=repr)
def test_a_misspelt_state_is_found_as_it_starts_and_behind_an_attribute(policy: TriggerPolicy) -> None:
    assert f"{type(policy).__name__}.state_types declares events" in failing(trigger=policy, eviction=All())


def test_a_key_that_a_dict_called_state_lacks_is_not_said_to_be_a_state() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        state = {"CA": 1}
        return state["NY"]

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "KeyError: 'NY'" in said
    assert "state_types" not in said


def test_a_key_that_another_dict_lacks_is_not_said_to_be_a_state() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return {"a": True}["b"]

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "KeyError: 'b'" in said
    assert "state_types" not in said


def test_a_key_that_a_dict_in_the_state_lacks_is_not_said_to_be_a_state() -> None:
    class Positions(OnNine):
        state_types: ClassVar[dict[str, type]] = {"positions": dict}

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            return context.state["positions"]["AAPL"]

    said = failing(trigger=Positions(), eviction=All())
    assert "KeyError: 'AAPL'" in said
    assert "state_types" not in said


def test_a_key_that_a_dict_with_a_name_like_the_state_lacks_is_not_said_to_be_a_state() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        tax_by_state = {"CA": 1}
        return tax_by_state["NY"]

    assert "state_types" not in failing(trigger=trigger_of(track), eviction=All())


def test_an_attribute_that_events_on_arrays_lack_is_said_with_what_they_have() -> None:
    def track_all(self: Any, events: QueuedEvents, context: TriggerContext) -> Any:
        return events.value == 9  # type: ignore[attr-defined]

    said = failing(trigger=type("Mine", (OnNine,), {"track_all": track_all})(), eviction=All())
    assert "Events have events['name of a column'], events.numbers, .timestamps and .streams, as arrays" in said


def test_an_error_that_cannot_say_what_it_is_is_one_of_the_policy() -> None:
    class Mute(TypeError):
        def __str__(self) -> str:
            raise ValueError("not this")

    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        raise Mute

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "bolt 'show' failed in track of Mine()" in said
    assert "Mute: (it cannot say what it is: ValueError in its __str__)" in said


def test_methods_named_as_hooks_of_the_other_kind_are_a_users_own() -> None:
    trigger = type("Named", (OnNine,), {"window_start": lambda self: 0, "evict": lambda self: 0})()
    eviction = type("Named", (All,), {"on_time": lambda self: 0, "on_end": lambda self: 0})()
    assert [row["held"] for row in run(timed(trigger=trigger, eviction=eviction), ROWS, Cut([2]))] == [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
    ]


def given_nine(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def call(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return hook(self, event, context, 9)

    return call


def test_a_decorator_may_give_a_hook_more_arguments() -> None:
    @given_nine
    def track(self: Any, event: QueuedEvent, context: TriggerContext, nine: int) -> Any:
        return event["value"] == nine

    assert len(run(timed(trigger=trigger_of(track), eviction=All()), ROWS, Cut([2]))) == 2


def test_the_line_of_a_wrong_answer_is_that_of_the_hook_behind_its_decorator() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext, nine: int) -> Any:
        return "yes"

    line = track.__code__.co_firstlineno
    said = failing(trigger=trigger_of(given_nine(track)), eviction=All())
    assert f"test_own_policies_said.py:{line}, in track" in said


def test_the_line_that_changes_a_frozen_policy_is_said() -> None:
    @dataclass(frozen=True)
    class Frozen(OnNine):
        seen: int = 0

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            self.seen = 1  # type: ignore[misc]

    line = Frozen.track.__code__.co_firstlineno + 1
    said = failing(trigger=Frozen(), eviction=All())
    assert f"cannot assign to field 'seen' at {__file__}:{line}, in track" in said


@pytest.mark.parametrize("name", ["value", "time", "get"])
def test_an_attribute_that_an_event_lacks_is_said_with_what_it_has(name: str) -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return getattr(event, name)

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "An event has event['name of a column'], event.number, .timestamp, .stream and .row()" in said


@pytest.mark.parametrize(
    "wrong", [lambda event: event.timestamp + minutes(10), lambda event: minutes(10) < event.timestamp]
)
def test_a_time_and_a_duration_are_said_to_need_micros(wrong: Callable[[QueuedEvent], Any]) -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        return wrong(event)

    assert "take the .micros of a duration" in failing(trigger=trigger_of(track), eviction=All())


def test_a_moment_given_as_a_duration_is_said_with_what_to_write() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        context.wake_at = minutes(10)  # type: ignore[assignment]
        return False

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "write context.time + the .micros of this duration" in said


@pytest.mark.parametrize("moment", [0, 2**62, 2**63, 2**70])
def test_a_moment_that_has_passed_or_never_comes_is_an_error(moment: int) -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        context.wake_at = moment
        return False

    said = failing(trigger=trigger_of(track), eviction=All())
    said_of_time = "it must be a whole number of microseconds, later than context.time (0) and at most"
    assert f"wake_at was set to {moment}; {said_of_time}" in said


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (lambda self, reference: reference // 0, "ZeroDivisionError"),
        (lambda self, reference: "early", "it answered 'early' (str); a start is a whole number of microseconds"),
        (lambda self, reference: reference + 1, "not later than the end, 2000000"),
    ],
)
def test_a_wrong_start_of_a_window_is_an_error(start: Any, words: str) -> None:
    said = failing(trigger=OnNine(), eviction=type("Starts", (All,), {"window_start": start})())
    assert "bolt 'show' failed in window_start of " in said
    assert "the window that ends at 1970-01-01T00:00:02Z" in said
    assert words in said


def test_a_state_that_is_no_dict_is_an_error() -> None:
    def track(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
        context.state = 7  # type: ignore[assignment]
        return False

    said = failing(trigger=trigger_of(track), eviction=All())
    assert "context.state is a int 7, and it is a dict of the names in state_types" in said


def test_answers_on_arrays_are_checked() -> None:
    class Short(OnNine):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.zeros(1, np.bool_)

    class Odd(All):
        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            return np.ones(len(events), np.bool_)

    class Unknown(All):
        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            return np.where(np.arange(len(events)) == 0, -1, Action.PROCESS)

    assert "an Action for each of 3 events" in failing(trigger=OnNine(), eviction=Unknown())
    assert "it answered an array of bool of shape (1,)" in failing(trigger=Short(), eviction=All())
    assert "an Action for each of 3 events" in failing(trigger=OnNine(), eviction=Odd())


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            {"trigger": OnNine},
            r"trigger=<class .*OnNine'> is not a trigger policy(.|\n)*it is the class, and not an instance",
        ),
        ({"eviction": OnNine()}, r"eviction=OnNine\(\) is not an eviction policy"),
        ({"trigger": type("Never", (TriggerPolicy,), {})()}, r"Never overrides none of track,(.|\n)*never fire"),
        ({"eviction": type("Nothing", (EvictionPolicy,), {})()}, "Nothing overrides none of evict, evict_all"),
        (
            {"trigger": type("Sets", (OnNine,), {"state_types": {"a": set}})()},
            r"Sets\(\): state 'a' is declared set",
        ),
        (
            {"trigger": type("Tables", (OnNine,), {"state_types": {"a": "x long"}})()},
            r"Tables\(\): state 'a' is declared 'x long'",
        ),
        (
            {"trigger": type("Bytes", (OnNine,), {"state_types": {"a": bytes}})()},
            r"state 'a' is declared bytes(.|\n)*of int, float, str, bool, list and dict",
        ),
        (
            {"trigger": type("Quoted", (OnNine,), {"state_types": {"a": "int"}})()},
            r"Quoted\(\): state 'a' is declared 'int'(.|\n)*without quotation marks",
        ),
        (
            {"trigger": type("Alone", (OnNine,), {"track": lambda self, event: True})()},
            r"Alone.track\(event\) cannot be called: too many(.|\n)*def track\(self, event, context\)",
        ),
        (
            {"trigger": type("More", (OnNine,), {"on_arrival": lambda self, event, context: True})()},
            r"More.on_arrival\(event, context\) cannot be called: missing .*'context' at .*py:\d+",
        ),
        (
            {"eviction": None},
            r"OnNine\(\) has no eviction beside it(.|\n)*with_policies\(eviction=...\) too, or a length",
        ),
        (
            {"eviction": type("NoContext", (All,), {"reset": lambda self: None})()},
            r"NoContext.reset\(\) cannot be called(.|\n)*it is called with context",
        ),
        ({"trigger": type("Each", (OnNine,), {"every": 60})()}, r"Each.every = 60 \(int\)"),
        ({"trigger": type("Each", (OnNine,), {"every": seconds(0)})()}, r"Each.every = (.|\n)*longer than none"),
        ({"trigger": type("Moved", (OnNine,), {"offset": None})()}, r"Moved.offset = None(.|\n)*a length of time"),
        ({"eviction": type("Far", (All,), {"reach": "1m"})()}, r"Far.reach = '1m' \(str\)"),
        (
            {"eviction": type("Far", (All,), {"reach": property(lambda self: self.length)})()},
            r"Far.reach cannot be read: AttributeError",
        ),
        (
            {"trigger": type("Reads", (OnNine,), {"reads": "value, valeu"})()},
            r"Reads.reads names 'valeu'; did you mean 'value'\?",
        ),
    ],
)
def test_what_is_wrong_with_a_policy_is_said_as_the_topology_is_built(policies: Any, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        topology_of(timed(**{"trigger": OnNine(), "eviction": All(), **policies}))


REFUSED: dict[str, tuple[Callable[[WindowedBolt], WindowedBolt], str]] = {
    "`with_trigger`": (lambda bolt: bolt.with_trigger(Panes(early="1s")), "both, eviction, trigger"),
    "`with_lifetime`": (lambda bolt: bolt.with_lifetime("value"), "both, eviction, trigger"),
    "`with_empty_windows`": (lambda bolt: bolt.with_empty_windows(until="1h"), "both, eviction, trigger"),
    "`with_alignment(anchor=...)`": (lambda bolt: bolt.with_alignment(anchor="start"), "both, eviction, trigger"),
    "another kind of window": (lambda bolt: bolt.with_window(Session("1m")), "both"),
    "`with_lateness(by='window')`": (lambda bolt: bolt.with_lateness(by="window"), "both, eviction, trigger"),
    "`with_watermark(per_key=True)`": (lambda bolt: bolt.with_watermark(per_key=True), "both, eviction, trigger"),
    "`with_watermark(idle_timeout=...)`": (
        lambda bolt: bolt.with_watermark(idle_timeout="5s"),
        "both, eviction, trigger",
    ),
    "`with_time(output_time='window start')`, with a `window_start` of your own": (
        lambda bolt: bolt.with_time(output_time="window start"),
        "both, eviction",
    ),
    "`with_message_id_field`": (lambda bolt: bolt.with_message_id_field("id"), "both, eviction, trigger"),
    "a trigger of keys, `with_trigger(CountTrigger(...))`": (
        lambda bolt: bolt.with_trigger(CountTrigger(Count(2))),
        "both",
    ),
    "`with_window`, beside both policies": (lambda bolt: bolt.with_window("1m"), "both"),
    'a slide, `with_window("1m", "20s")`, beside a trigger': (lambda bolt: bolt.with_window("1m", "20s"), "trigger"),
    "`Union`, `TemporalJoin`": (lambda bolt: Union(), "both, eviction, trigger"),
}


def refusals() -> dict[str, str]:
    """The table of the chapter: what is refused, and why."""
    chapter = (ROOT / "docs" / "policy-reference.md").read_text(encoding="utf-8")
    table = chapter.split("| with a policy of your own | why not |\n|---|---|\n")[1].split("\n\n")[0]
    return dict(line.strip("| ").split(" | ") for line in table.splitlines())


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_policy_cannot_be_combined_with_is_refused_with_the_reason_of_the_chapter(what: str) -> None:
    put, which = REFUSED[what]
    far = type("Far", (All,), {"window_start": lambda self, reference: reference - 3_600_000_000})
    for given in which.split(", "):
        bolt = Show() if given == "both" or "slide" in what else Show().with_window("1m")
        policies: dict[str, Any] = {
            name: made for name, made in (("trigger", OnNine()), ("eviction", far())) if given in ("both", name)
        }
        with pytest.raises(WindboltError) as raised:
            topology_of(put(bolt.with_key("key").with_timestamp_field("ts")).with_policies(**policies))
        assert refusals()[what] in str(raised.value)


def test_the_chapter_names_nothing_else_that_is_refused() -> None:
    assert list(refusals()) == list(REFUSED)


def test_a_key_whose_columns_are_called_as_what_is_kept_beside_it_is_refused() -> None:
    builder = TopologyBuilder("own")
    builder.set_spout("numbers", spouts.memory("value long, _cache string, ts long"))
    bolt = timed(Show().with_key("_cache"), trigger=OnNine(), eviction=All())
    builder.set_bolt("show", bolt).fields_grouping("numbers", "_cache")
    with pytest.raises(TopologyError, match=r"has policies, and a key with the columns \['_cache'\]"):
        builder.build()


def test_a_policy_is_not_said_to_count_events_where_lateness_is_by_window() -> None:
    bolt = Show().with_timestamp_field("ts").with_policies(trigger=OnNine(), eviction=All())
    with pytest.raises(TopologyError) as raised:
        topology_of(bolt.with_lateness(by="window"))
    (problem,) = raised.value.problems
    assert "which window of a policy can still hold an event is not known" in str(problem)


# ---- what is seen of a run (findings 3 and 5)


def ended(folder: Path, rows: list[Row], *, keyed: bool = False, keep_open: bool = False, **policies: Any) -> str:
    """What a run with a checkpoint says at its end."""
    bolt = timed(**{"trigger": OnNine(), "eviction": All(), **policies})
    builder = TopologyBuilder("own")
    builder.set_spout(
        "numbers", spouts.memory("id long, key long, value long, ts long", [tuple(row.values()) for row in rows])
    )
    builder.set_bolt("show", bolt.with_key("key") if keyed else bolt, 2 if keyed else 1).fields_grouping(
        "numbers", "key"
    )
    builder.set_sink("out", sinks.memory()).from_("show")
    topology = builder.build()
    summary = run_local(topology, RunOptions(str(folder), keep_open=keep_open, clock=lambda: 0))
    console = Console(file=io.StringIO(), width=200)
    print_summary(console, topology, summary, str(folder))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_end_of_a_run_says_what_is_in_no_window_and_why(tmp_path: Path) -> None:
    said = ended(tmp_path / "some", ROWS)
    assert "The streams have ended, and what was due has fired" in said
    assert "Of 'show' 3 events are in no window, and pending: what All keeps, fired by OnNine." in said
    assert "open windows have been closed" not in said
    assert "The open windows have been closed" in ended(tmp_path / "none", ROWS[:5])
    answer = why(str(tmp_path / "some"), "show")
    assert "nothing fired for 3 events that are in no window yet" in " ".join(answer.sentences)


def test_a_built_in_number_of_events_lets_go_what_no_window_to_come_can_hold(tmp_path: Path) -> None:
    """Also where nothing has fired for long: else a task would hold all events since."""
    said = ended(tmp_path, ROWS, eviction=WatermarkCountEvictionPolicy(Count(1)))
    assert "Of 'show' 2 events are in no window, and pending" in said, "the last, and the one that BEFORE would hold"


def test_the_state_of_policies_is_a_table(tmp_path: Path) -> None:
    ended(tmp_path / "one", ROWS, keep_open=True)
    (row,) = state.read(str(tmp_path / "one"), "show")["policies"].to_pylist()
    assert (row["task"], row["events"], row["events_since"], row["trigger"]) == (0, 8, 3, '{"events": 8}')
    assert row["fired"].timestamp() == 4
    assert row["next_moment"] is row["key_hash"] is None
    ended(tmp_path / "keys", ROWS, keyed=True, keep_open=True)
    rows = state.read(str(tmp_path / "keys"), "show")["policies"].to_pylist()
    found = {row["key"]: (row["events"], row["trigger"]) for row in rows}
    assert found == {0: (4, '{"events": 4}'), 1: (4, '{"events": 4}')}
    (row,) = state.read(str(tmp_path / "keys"), "show", key="0")["policies"].to_pylist()
    assert row["events_since"] == 1
    assert row["forgotten_at"] is None


def test_the_page_and_the_state_show_when_a_key_is_forgotten_and_what_is_kept_of_it(tmp_path: Path) -> None:
    ended(tmp_path / "one", ROWS, keep_open=True)
    only = StoredRun(str(tmp_path / "one")).state("", -1)["bolts"]["show"]["open"]["policies"]
    assert (only["trigger"], only["eviction"], only["units"], only["more"]) == ("OnNine", "All", [], 0)
    assert only["told"][0].endswith('told of 8 events, the last at 1970-01-01T00:00:07Z; its state is {"events": 8}.')
    ended(tmp_path / "keys", ROWS, keyed=True, keep_open=True, trigger=Silent(), eviction=Since())
    seen = StoredRun(str(tmp_path / "keys")).state("", -1)["bolts"]["show"]["open"]["policies"]
    found = [
        (row["name"], row["events"], row["events_since"], row["fired"], row["forgotten_at"]) for row in seen["units"]
    ]
    assert found == [("1", 4, 4, None, 10_000_000), ("0", 4, 1, 4_000_000, 9_000_000)]
    assert (
        seen["told"][-1] == "At 1970-01-01T00:00:09Z the first of them is forgotten, if no event of it comes by then."
    )
    kept = state.read(str(tmp_path / "keys"), "show")["policies"].to_pylist()
    assert {row["key"]: (row["forgotten_at"].timestamp(), row["eviction_events"]) for row in kept} == {
        0: (9, 3),
        1: (10, 0),
    }


def test_a_name_that_is_declared_anew_begins_as_it_would_in_a_new_task(tmp_path: Path) -> None:
    class More(OnNine):
        state_types: ClassVar[dict[str, type]] = {"events": int, "fires": int}

        def start(self, state: dict[str, Any]) -> None:
            state["fires"] = 7

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            return super().track(event, context)

    step = Unit(OnNine(), ROWS[:4])
    assert step.state == {"events": 4}
    assert Unit(More(), ROWS[4:], step).state == {"events": 8, "fires": 7}


class Unit:
    """A task without a topology: its windows, and what is kept of it."""

    def __init__(self, trigger: TriggerPolicy, rows: list[Row], before: Unit | None = None) -> None:
        times = np.array([1_000 * row["ts"] for row in rows], np.int64)
        records = KeyStates(None if before is None else before.records.table(None), ())
        events = RetainedEvents(times=times, payload=pa.Table.from_pylist(rows))
        windows = PolicyWindows(All(), trigger, events, 0, records)
        fired = [each for each in windows.windows(int(times[-1])) if isinstance(each, TupleWindow)]
        self.fired = [window.table.column("id").to_pylist() for window in fired]
        self.next_due = windows.next_due
        self.records: KeyStates = records
        record = records.get(0)
        assert record is not None
        kept = UnitRecord.from_text(record.state_text)
        self.state, self.time = kept.trigger, kept.time


@pytest.mark.parametrize("last", [7, 0], ids=["seven", "1970"])
def test_the_time_of_a_task_is_that_of_its_last_event_though_a_window_ended_before(last: int) -> None:
    rows = [{**row, "ts": row["ts"] - 7_000 + 1_000 * last} for row in ROWS]
    assert Unit(WatermarkTimeTriggerPolicy(seconds(3), offset=seconds(2)), rows).time == 1_000_000 * last


def test_on_arrays_a_window_before_a_moment_is_without_the_events_of_that_time() -> None:
    class OnArrays(TriggerPolicy):
        every = seconds(2)

        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.zeros(len(events), np.bool_)

        def on_time(self, time: int, context: TriggerContext) -> Any:
            return Fire.BEFORE

    rows = [
        {**row, "ts": ts} for row, ts in zip(ROWS, [0, 1_000, 2_000, 2_000, 3_000, 4_000, 4_000, 4_000], strict=True)
    ]
    for cut in ([8], [3, 1], [1] * 8):
        held = [row["held"] for row in run(timed(trigger=OnArrays(), eviction=All()), rows, Cut(cut))]
        assert held[:2] == [[0, 1], [0, 1, 2, 3, 4]]


def test_policies_can_be_run_without_a_topology() -> None:
    unit = Unit(OnNine(), ROWS)
    assert unit.fired == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert unit.next_due is None, "all events have been told, and the trigger waits for no moment"


def test_a_policy_on_arrays_cannot_change_what_the_engine_goes_by() -> None:
    class Shifts(OnNine):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            events.timestamps[:] = 0
            return np.zeros(len(events), np.bool_)

    class Renumbers(All):
        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            events.numbers[:] = 0
            return np.full(len(events), Action.PROCESS)

    assert "ValueError: assignment destination is read-only" in failing(trigger=Shifts(), eviction=All())
    assert "ValueError: assignment destination is read-only" in failing(trigger=OnNine(), eviction=Renumbers())


# ---- keys that are forgotten


class Silent(OnNine):
    """The same, of keys that are forgotten after three seconds without an event; what is left fires then."""

    forget_after = seconds(3)

    def on_end(self, context: TriggerContext) -> Any:
        return context.count > context.fired_count


class Since(EvictionPolicy):
    """What has come since the window before."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Any:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


def test_what_is_kept_of_a_key_is_deleted_when_it_has_been_silent(tmp_path: Path) -> None:
    rows = [{"id": n, "key": n // 2, "value": 9 * (n % 2), "ts": 10_000 * (n // 2)} for n in range(40)]
    builder, sink = TopologyBuilder("own"), sinks.memory()
    batches = [[tuple(row.values()) for row in rows[low : low + 3]] for low in range(0, 40, 3)]
    builder.set_spout("numbers", spouts.memory("id long, key long, value long, ts long", *batches))
    bolt = timed(Show().with_key("key"), trigger=Silent(), eviction=Since())
    builder.set_bolt("show", bolt, 2).fields_grouping("numbers", "key")
    builder.set_sink("out", sink).from_("show")
    run_local(builder.build(), RunOptions(str(tmp_path), keep_open=True, clock=lambda: 0))
    assert sorted(row["held"] for row in sink.rows) == [[n, n + 1] for n in range(0, 40, 2)]
    kept = state.read(str(tmp_path), "show")["policies"].to_pylist()
    assert [row["key"] for row in kept] == [19]


def test_a_key_that_comes_back_begins_anew_and_what_it_still_had_is_purged() -> None:
    kept: list[tuple[int, int, int | None]] = []

    class Noted(Silent):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            kept.append((event["id"], event.number, context.fired))
            return super().track(event, context)

        def on_end(self, context: TriggerContext) -> Any:
            return False

    rows = [{"id": n, "key": 0, "value": 9 if n == 1 else 0, "ts": ts} for n, ts in enumerate([0, 1_000, 2_000, 9_000])]
    for cut in ([], [1] * 4, [3]):
        kept.clear()
        assert [row["held"] for row in run(timed(trigger=Noted(), eviction=Since()), rows, Cut(cut))] == [[0, 1]]
        assert kept == [(0, 0, None), (1, 1, None), (2, 2, 1_000_000), (3, 0, None)]


def test_a_bolt_is_told_which_key_is_forgotten() -> None:
    forgotten: list[Any] = []

    class Told(Show):
        def forget(self, key: Any) -> None:
            forgotten.append(key)

    rows = [{"id": n, "key": n, "value": 0, "ts": 10_000 * n} for n in range(3)]
    run(timed(Told().with_key("key"), trigger=Silent(), eviction=Since()), rows, Cut([1, 1]))
    assert forgotten == [0, 1, 2]


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            {"trigger": type("Slow", (Silent,), {"every": minutes(1)})()},
            r"forget_after, 3s, is shorter than Slow\.every",
        ),
        ({"trigger": type("Text", (Silent,), {"forget_after": "1h"})()}, r"Text\.forget_after = '1h'"),
        ({"trigger": type("Text", (Silent,), {"every": "1h"})()}, r"Text\.every = '1h'"),
        ({"trigger": type("None_", (Silent,), {"every": seconds(0)})()}, r"None_\.every = "),
    ],
)
def test_times_that_do_not_go_together_are_said_as_the_topology_is_built(policies: Any, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        topology_of(timed(**{"trigger": OnNine(), "eviction": Since(), **policies}))


def test_a_moment_after_a_key_is_forgotten_is_an_error() -> None:
    class Late(Silent):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            context.wake_at = context.time + seconds(4).micros
            return False

    said = failing(trigger=Late(), eviction=Since())
    assert "wake_at was set to 1970-01-01T00:00:04Z; by then the key is forgotten (forget_after)" in said


# ---- policies that do all wrong


def raises(error: BaseException) -> Callable[..., Any]:
    def hook(*arguments: Any) -> Any:
        raise error

    return hook


@pytest.mark.parametrize("hook", ["track", "on_time", "on_arrival", "on_end", "reset", "start"])
def test_no_hook_of_a_trigger_can_end_a_run_in_silence(hook: str) -> None:
    wrong = type("Exits", (OnNine,), {hook: raises(SystemExit(0)), "every": seconds(1)})()
    said = failing(trigger=wrong, eviction=All())
    assert f"failed in {hook} of Exits()" in said
    assert "SystemExit: 0" in said
    assert "event -1" not in said


@pytest.mark.parametrize("hook", ["track", "track_all", "evict", "evict_all", "reset", "start", "window_start"])
def test_no_hook_of_an_eviction_can_end_a_run_in_silence(hook: str) -> None:
    said = failing(trigger=OnNine(), eviction=type("Exits", (All,), {hook: raises(SystemExit(0))})())
    assert f"failed in {hook} of Exits()" in said
    assert "SystemExit: 0" in said


@pytest.mark.parametrize("start", ["x", 1.5, True, 10**30])
def test_a_start_that_is_no_time_is_an_error(start: Any) -> None:
    wrong = type("Starts", (All,), {"window_start": lambda self, reference: start})()
    assert "failed in window_start of Starts()" in failing(trigger=OnNine(), eviction=wrong)


def test_a_state_that_contains_itself_is_an_error() -> None:
    class Itself(OnNine):
        state_types: ClassVar[dict[str, type]] = {"seen": list, "events": int}

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            context.state["seen"].append(context.state["seen"])
            return False

    said = failing(trigger=Itself(), eviction=All())
    assert "context.state['seen'] contains itself, at context.state['seen'][0]" in said


def test_the_end_of_a_window_does_not_follow_what_a_trigger_writes_into_its_context() -> None:
    class Writes(OnNine):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            context.time, context.count = 77, 99
            return event["value"] == 9

    found = run(timed(trigger=Writes(), eviction=All()), ROWS, Cut([]))
    assert [row["ends"] for row in found] == [2_000_000, 4_000_000]


def test_a_policy_that_holds_a_lock_is_refused_as_the_topology_is_built() -> None:
    class Locks(OnNine):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(TopologyError, match="holds in its setting trigger what cannot be copied"):
        topology_of(timed(trigger=Locks(), eviction=All()))


def test_a_column_that_reads_does_not_name_is_said_with_those_that_there_are() -> None:
    class Reads(OnNine):
        reads = "value"

        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            return event["weight"] > 1

    said = failing(trigger=Reads(), eviction=type("ReadsToo", (All,), {"reads": "value"})())
    assert "KeyError: 'weight'" in said
    assert "The columns of an event here are id, key, value, ts; Reads.reads names those that it needs" in said


def test_two_bolts_share_a_policy_and_nothing_else() -> None:
    trigger, eviction = OnNine(), All()
    builder, found = TopologyBuilder("two"), {}
    rows = [tuple(row.values()) for row in ROWS]
    builder.set_spout("numbers", spouts.memory("id long, key long, value long, ts long", rows))
    for name, bolt in (("whole", Show()), ("keyed", Show().with_key("key"))):
        declared = builder.set_bolt(name, timed(bolt, trigger=trigger, eviction=eviction))
        declared.fields_grouping("numbers", "key")
        found[name] = sinks.memory()
        builder.set_sink(f"{name}-out", found[name]).from_(name)
    run_local(builder.build())
    assert [row["held"] for row in found["whole"].rows] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert [row["held"] for row in found["keyed"].rows] == [[0, 2], [0, 2, 4]]


def test_the_repr_of_a_policy_has_its_durations() -> None:
    class Pause(OnNine):
        def __init__(self, longest: Duration, most: Count) -> None:
            self.longest, self.most = longest, most

    assert repr(Pause(minutes(10), Count(3))).endswith(f"Pause(longest={minutes(10)!r}, most={Count(3)!r})")


# ---- objects of a user's whose own repr fails


class Speechless:
    """A repr that needs something that is not there yet, as one of a dataclass does."""

    def __repr__(self) -> str:
        return str(self.missing)  # type: ignore[attr-defined]


SPEECHLESS = "<Speechless, whose __repr__ raises AttributeError>"


def test_the_error_of_a_hook_is_told_where_the_repr_of_its_policy_fails() -> None:
    class Mute(Speechless, OnNine):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            raise ValueError("what it is about")

    said = failing(trigger=Mute(), eviction=All())
    assert "ValueError: what it is about" in said
    assert "Mute, whose __repr__ raises AttributeError>" in said


def answered(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
    return Speechless()


def woken(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
    context.wake_at = Speechless()  # type: ignore[assignment]
    return False


def kept(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
    context.state["events"] = Speechless()
    return False


NAME: Any = Speechless()


def kept_among_others(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
    context.state[NAME] = 1
    return False


def kept_instead(self: Any, event: QueuedEvent, context: TriggerContext) -> Any:
    context.state = Speechless()  # type: ignore[assignment]
    return False


@pytest.mark.parametrize(
    ("track", "words"),
    [
        (answered, f"it answered {SPEECHLESS}"),
        (woken, f"wake_at was set to {SPEECHLESS}; it must be a whole number"),
        (kept, f"context.state['events'] is a Speechless {SPEECHLESS}, and state_types declares int"),
        (kept_among_others, f"context.state has {SPEECHLESS}, which state_types does not declare"),
        (kept_instead, f"context.state is a Speechless {SPEECHLESS}, and it is a dict"),
    ],
)
def test_an_answer_whose_repr_fails_is_said_to_be_none(track: Any, words: str) -> None:
    assert words in failing(trigger=trigger_of(track), eviction=All())


class Returns(WindowedBolt):
    """Returns what cannot say what it is."""

    outputs = "n long"
    value: Any

    def execute(self, window: Any) -> Any:
        """The value."""
        return self.value


@pytest.mark.parametrize(
    ("outputs", "value", "words"),
    [
        ("n long", Speechless(), f"a bolt returned Speechless {SPEECHLESS}"),
        ("n struct<a: long>", (Speechless(),), f"{SPEECHLESS} is not a dict"),
        ("n map<string, long>", (Speechless(),), f"{SPEECHLESS} is not a map"),
        ("n long", {Speechless(): 1}, f"a bolt returned {SPEECHLESS}, but declares 'n long'"),
        ("n long", Emit((1,), stream=NAME), f"rows for a stream {SPEECHLESS}"),
    ],
)
def test_a_value_whose_repr_fails_is_said_to_be_of_another_type(outputs: str, value: Any, words: str) -> None:
    with pytest.raises(BoltError) as caught:
        run(
            type("Mine", (Returns,), {"outputs": outputs, "value": value})()
            .with_tumbling_window("10s")
            .with_timestamp_field("ts"),
            ROWS,
            Cut([2]),
        )
    assert words in str(caught.value)


def test_a_declaration_whose_repr_fails_is_said_to_be_no_schema() -> None:
    with pytest.raises(TopologyError) as caught:
        run(type("Mine", (Returns,), {"outputs": NAME})().with_tumbling_window("10s"), ROWS, Cut([2]))
    assert f"{SPEECHLESS} is not a schema" in str(caught.value)
    with pytest.raises(ConfigError) as refused:
        check_types({"n": NAME})
    assert f"state 'n' is declared {SPEECHLESS}, which is not a schema" in str(refused.value)


@pytest.mark.parametrize("method", ["with_window", "with_trigger", "with_key", "with_timestamp_extractor"])
def test_an_argument_whose_repr_fails_is_refused_in_words(method: str) -> None:
    with pytest.raises(ConfigError) as caught:
        getattr(Returns(), method)(Speechless())
    assert SPEECHLESS in str(caught.value)
