"""``check_policy``: what a user's policy may not do is found, and shown with few events; sound ones pass."""

from __future__ import annotations

import datetime
import functools
import itertools
import random
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.policy_walks import UserEvictionWalk
from tests.helpers.examples import examples, sampled
from tests.topologies.engine.test_own_policies import DrawnTrigger, OnFlush, evictions, triggers
from tests.topologies.engine.test_own_policies import inputs as drawn_inputs
from windbolt import ConfigError, TupleWindow, WindowedBolt, millis, seconds
from windbolt.policies import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from windbolt.testing import PolicyDiffers, check_policy

ROWS = [
    {"ts": 1_000 * at, "symbol": "ab"[at % 2], "kind": f"k{at % 5}", "price": 100.0 + 7 * at % 31} for at in range(12)
]


@dataclass(frozen=True)
class Near(EvictionPolicy):
    """What is near the latest price."""

    width: float
    reads = "price"
    state_types: ClassVar[dict[str, type]] = {"latest": float}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        context.state["latest"] = event["price"]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if abs(event["price"] - context.state["latest"]) <= self.width else Action.EXPIRE


class Third(TriggerPolicy):
    """Every third event."""

    reads = ()

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        return event.number % 3 == 2


class Pause(TriggerPolicy):
    """After a pause, or at a kind; on arrays too."""

    every = seconds(4)

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        return Fire.BEFORE if event["kind"] == "k3" else False

    def on_time(self, time: int, context: TriggerContext) -> bool:
        return context.count - context.fired_count >= 2

    def on_arrival(self, event: QueuedEvent) -> bool:
        return bool(event["kind"] == "k4")

    def on_end(self, context: TriggerContext) -> bool:
        return True


class All(EvictionPolicy):
    """All events that there are."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS


class OnArrays(EvictionPolicy):
    """The highest price so far, and those near it."""

    state_types: ClassVar[dict[str, type]] = {"highest": float}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        context.state["highest"] = max(context.state["highest"], event["price"])

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        context.state["highest"] = max(context.state["highest"], float(events["price"].max()))

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event["price"] >= context.state["highest"] - 10 else Action.KEEP

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        return np.where(events["price"] >= context.state["highest"] - 10, Action.PROCESS, Action.KEEP)


def found(**given: Any) -> PolicyDiffers:
    """What ``check_policy`` says of policies that are not sound."""
    given = {"cuts": 4, "other_process": False, **given}
    with pytest.raises(PolicyDiffers) as raised:
        check_policy(given.pop("rows", ROWS), **given)
    return raised.value


def test_sound_policies_pass_with_keys_with_windows_of_time_and_in_processing_time() -> None:
    check = check_policy(ROWS, eviction=Near(10), trigger=Third(), cuts=4)
    assert [each.end_timestamp for each in check.windows] == [2_000_000, 5_000_000, 8_000_000, 11_000_000]
    assert check.windows[0].events == [ROWS[place] | {"ts": ROWS[place]["ts"]} for place in (1, 2)]
    assert (check.inputs, check.cuts, check.crashed, check.moved, check.notes) == (1, 4, 2, 0, [])
    keyed = check_policy(ROWS, eviction=OnArrays(), trigger=Pause(), key="symbol", cuts=4, other_process=False)
    assert {each.key for each in keyed.windows} == {"'a'", "'b'"}
    assert keyed.moved == 2
    check_policy(ROWS, eviction=Near(10), window=("4s", "2s"), cuts=4, other_process=False)
    check_policy(ROWS, trigger=Pause(), window="4s", cuts=4, other_process=False)
    clocked = [1_000.0 * at for at in range(len(ROWS))]
    by_clock = check_policy(
        ROWS, eviction=All(), trigger=Pause(), timestamp_field=None, clock=clocked, cuts=4, other_process=False
    )
    assert by_clock.windows


def test_events_out_of_order_are_late_in_no_cut() -> None:
    rows = random.Random(3).sample(ROWS, len(ROWS))
    assert check_policy(rows, eviction=Near(20), trigger=Third(), cuts=4, other_process=False).windows
    assert check_policy(rows, eviction=Near(20), trigger=Third(), lag=millis(1), cuts=4, other_process=False).windows


def test_a_configured_bolt_is_checked_with_its_settings() -> None:
    class Emits(WindowedBolt):
        outputs = "n long"

        def execute(self, window: TupleWindow) -> Any:
            raise AssertionError("it is not called")

    bolt = Emits().with_timestamp_field("ts").with_key("symbol").with_policies(eviction=Near(10), trigger=Third())
    assert check_policy(ROWS, bolt=bolt, cuts=4, other_process=False).moved
    with pytest.raises(ConfigError, match="give the bolt alone"):
        check_policy(ROWS, bolt=bolt, key="symbol")


def test_a_clock_is_found_with_the_users_line() -> None:
    class ByClock(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return time.time() < 0 or event.number % 3 == 2

    class ByDate(ByClock):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return helps() and event.number % 3 == 2

    def helps() -> bool:
        return datetime.datetime.now(datetime.UTC).year > 1

    text = str(found(trigger=ByClock(), window="5s"))
    assert "the clock is read by time.time() at test_check_policy.py:" in text
    assert "Use context.time" in text
    assert "datetime.now() at test_check_policy.py:" in str(found(trigger=ByDate(), window="5s"))


def test_chance_is_found_when_the_same_is_run_again() -> None:
    class ByChance(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return random.random() < 0.5

    text = str(found(trigger=ByChance(), window="5s"))
    assert "has other windows when the same run is done again" in text
    assert "It calls random.random (test_check_policy.py:" in text


def test_state_on_the_object_or_in_a_variable_is_found() -> None:
    class OnSelf(TriggerPolicy):
        number = 0

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            self.number += 1
            return self.number % 3 == 2

    error = found(trigger=OnSelf(), window="5s")
    assert "has other windows after a crash" in str(error)
    assert "OnSelf has changed self.number" in str(error)
    assert len(error.events) == 2
    assert error.first is not None
    assert error.second is not None

    counter = itertools.count()

    class InAVariable(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return next(counter) % 5 == 2

    assert "what an earlier run has left in a variable" in str(found(trigger=InAVariable(), window="5s"))


class AboveTheFirst(TriggerPolicy):
    """Remembers the first price of each key in its class, which another process does not have."""

    reads = "price"
    first: ClassVar[dict[Any, Any]] = {}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        return bool(event["price"] > self.first.setdefault(context.key, event["price"]))


class AboveTheFirstByACache(TriggerPolicy):
    """The same by a cache of a method."""

    reads = "price"

    @classmethod
    @functools.cache
    def first(cls, key: Any) -> list[Any]:
        return []

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        first = self.first(context.key)
        first.append(event["price"])
        return bool(event["price"] > first[0])


@pytest.mark.parametrize("kind", [AboveTheFirst, AboveTheFirstByACache])
def test_what_a_class_remembers_is_found(kind: type[TriggerPolicy]) -> None:
    rows = [{"price": float(at * 7 % 5), "ts": at * 1_000} for at in range(1, 13)]
    with pytest.raises(PolicyDiffers, match="after a crash"):
        check_policy(rows, eviction=All(), trigger=kind())


class ByTheOrderOfASet(TriggerPolicy):
    """It takes the first of a set of texts."""

    state_types: ClassVar[dict[str, type]] = {"seen": list}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state["seen"] = list({*context.state["seen"], event["kind"]})
        return bool(context.state["seen"][0] == event["kind"])


class ByHash(TriggerPolicy):
    """It takes what Python's hash says."""

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        return hash(f"{event['kind']}{event.number}") % 2 == 0


@pytest.mark.parametrize("kind", sampled([ByTheOrderOfASet, ByHash], 2))
def test_the_order_of_a_set_and_hashes_are_found_in_another_process(kind: type[TriggerPolicy]) -> None:
    error = found(trigger=kind(), window="50s", cuts=2, other_process=True)
    assert "has other windows in another process" in str(error)


def test_the_other_process_gets_policies_that_it_cannot_import() -> None:
    class Local(ByHash):
        pass

    assert "in another process" in str(found(trigger=Local(), window="50s", cuts=2, other_process=True))


def test_an_event_that_is_kept_beyond_its_call_is_found() -> None:
    class Kept(Near):
        def track(self, event: QueuedEvent, context: EvictionContext) -> None:
            object.__setattr__(self, "event", event)

        def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
            latest = self.__dict__["event"]
            return Action.PROCESS if abs(event["price"] - latest.row()["price"]) < 10 else Action.EXPIRE

    error = found(eviction=Kept(10), trigger=Third())
    assert "Kept reads an event after the call of track that it was given to (test_check_policy.py:" in str(error)
    assert len(error.events) == 3

    class KeptArray(OnArrays):
        def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
            self.prices = events["price"]

        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            return np.where(events["price"] >= self.prices.max() - 10, Action.PROCESS, Action.KEEP)

    assert "looks at more than its call gives it" in str(found(eviction=KeptArray(), trigger=Third()))


def test_a_look_at_a_later_event_is_found() -> None:
    class Later(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            prices = event._columns["price"]
            return event._index + 1 < len(prices) and prices[event._index + 1] > event["price"]

    error = found(trigger=Later(), window="5s")
    assert "looks at more than its call gives it" in str(error)
    assert len(error.events) == 2

    class Beyond(Near):
        def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
            return Action.PROCESS if event._columns["price"][event._index % 2 + 1] > 110 else Action.KEEP

    assert "fails where an event cannot be reached" in str(found(eviction=Beyond(10), trigger=Third()))


def test_a_column_that_is_not_declared_is_found() -> None:
    class Undeclared(Near):
        reads = "kind"

    assert "reads the column 'price', which its `reads` does not name (test_check_policy.py:" in str(
        found(eviction=Undeclared(10), trigger=Third())
    )


def test_hooks_on_arrays_that_are_not_equal_to_two_halves_are_found() -> None:
    class ByPlaces(TriggerPolicy):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.arange(len(events)) % 3 == 2

    text = str(found(trigger=ByPlaces(), window="5s"))
    assert "has other windows when batches end elsewhere" in text
    assert "──" in text
    assert "has a track_all that depends on how it is called" in str(found(eviction=Means(), trigger=Third()))


class Means(EvictionPolicy):
    """It keeps the mean of a call."""

    state_types: ClassVar[dict[str, type]] = {"mean": float}

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        context.state["mean"] = float(events["price"].mean())

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        return np.where(events["price"] >= context.state["mean"], Action.PROCESS, Action.KEEP)


def test_hooks_on_arrays_that_answer_otherwise_are_found() -> None:
    class Otherwise(Third):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return events.numbers % 3 == 1

    class EvictsOtherwise(OnArrays):
        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            return np.where(events["price"] > context.state["highest"] - 10, Action.PROCESS, Action.EXPIRE)

    assert "decides otherwise on arrays than event by event" in str(found(trigger=Otherwise(), window="5s"))
    assert "decides otherwise on arrays than event by event" in str(found(eviction=EvictsOtherwise(), trigger=Third()))


def test_what_is_kept_for_all_keys_of_a_task_is_found() -> None:
    class Shared(TriggerPolicy):
        """Its highest price is that of all keys that it has met since it was made."""

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            highest = self.__dict__.setdefault("highest", {"": 0.0})
            if context.count == 1:  # a new key: it begins anew, or so it seems where there is one key
                highest[""] = 0.0
            highest[""] = max(highest[""], event["price"])
            return bool(highest[""] == event["price"])

    rows = [{"ts": 1_000 * at, "symbol": "a", "price": float(at)} for at in range(6)]
    check_policy(rows, trigger=Shared(), window="5s", cuts=1, other_process=False)
    assert "has other windows" in str(found(trigger=Shared(), window="5s", key="symbol"))


def test_asking_an_eviction_about_events_beyond_the_firing_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 1 of the issue, put back."""
    asked = UserEvictionWalk._evict_each
    monkeypatch.setattr(UserEvictionWalk, "_evict_each", lambda self, stop: asked(self, len(self._tracked)))
    error = found(eviction=All(), trigger=Third())
    assert "has other windows when batches end elsewhere" in str(error)
    assert len(error.events) == 4


class Big(EvictionPolicy):
    """The events that ``track`` has found good, by their numbers."""

    state_types: ClassVar[dict[str, type]] = {"good": list}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        if event["price"] > 110:
            context.state["good"].append(event.number)

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number in context.state["good"] else Action.EXPIRE


def test_numbers_that_change_when_events_expire_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 2 of the issue, put back: in ``evict`` an event goes by its place in the queue."""
    asked = UserEvictionWalk._evict_each

    def by_place(self: UserEvictionWalk, stop: int) -> Any:
        numbers, times, places = self._lists
        self._lists = (list(range(len(numbers))), times, places)
        try:
            return asked(self, stop)
        finally:
            self._lists = (numbers, times, places)

    assert check_policy(ROWS, eviction=Big(), trigger=Third(), cuts=4, other_process=False).windows
    monkeypatch.setattr(UserEvictionWalk, "_evict_each", by_place)
    assert "has other windows when batches end elsewhere" in str(found(eviction=Big(), trigger=Third()))


def test_a_difference_is_shown_side_by_side() -> None:
    class ByPlaces(TriggerPolicy):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.arange(len(events)) == 1

    rows = [{"ts": 1_000 * at, "price": float(at)} for at in range(4)]
    text = str(found(rows=rows, trigger=ByPlaces(), window="5s"))
    assert text == (
        "ByPlaces() has other windows when batches end elsewhere.\n"
        "                         │ one batch of all events │ a batch ends at each line\n"
        "event                    │ a                       │ a\n"
        " 1  00:00:00  price 0.0  │ ●                       │      <- differs\n"
        "                         │                         │ ─────────────────────────\n"
        " 2  00:00:01  price 1.0  │ ●                       │      <- differs\n"
        "  window a ends 1970-01-01T00:00:01Z: only on the left\n"
        "events: 2 received, 2 windowed | 2 pending, 2 received\n"
        "what a policy knows of events must come from its arguments; hooks on arrays must give for two pieces what "
        "they give for both together; nothing may depend on which events it has not seen."
    )


@st.composite
def inputs(draw: st.DrawFn) -> list[dict[str, Any]]:
    prices = draw(st.lists(st.integers(0, 30), max_size=12))
    return [{"ts": 1_000 * at, "symbol": "ab"[price % 2], "price": float(price)} for at, price in enumerate(prices)]


def test_inputs_may_be_drawn() -> None:
    check = check_policy(inputs(), eviction=Near(10), trigger=Third(), examples=5, cuts=3, other_process=False)
    assert check.inputs >= 3
    assert check.windows

    class Broken(Third):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return np.arange(len(events)) % 3 == 2

    error = found(rows=inputs(), eviction=Near(10), trigger=Broken(), examples=6)
    assert len(error.events) <= 4


@examples(6)
@given(evictions, triggers, drawn_inputs(), st.booleans(), st.booleans())
def test_drawn_policies_that_are_sound_pass(
    eviction: Any, trigger: Any, rows: list[dict[str, Any]], keyed: bool, flush: bool
) -> None:
    if flush and isinstance(trigger, DrawnTrigger):
        trigger = OnFlush(trigger.by, trigger.least, trigger.grid, trigger.before, trigger.at_end)
    key = "key" if keyed else ()
    try:
        check_policy(rows, eviction=eviction, trigger=trigger, key=key, cuts=4, other_process=False)
    except ConfigError as error:
        if "no window fires" not in error.what:
            raise


def test_what_cannot_be_checked_is_said() -> None:
    class Never(TriggerPolicy):
        def on_time(self, time: int, context: TriggerContext) -> bool:
            return False

    class Fails(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return bool(event["prise"])

    for match, arguments in {
        "no window fires for these 12 events": {"trigger": Never(), "window": "5s"},
        "a policy fails.*'prise'": {"trigger": Fails(), "window": "5s"},
        "without a policy": {},
        "that is a class": {"trigger": Never},
        "clock has 0 times for 12 events": {"trigger": Never(), "window": "5s", "timestamp_field": None},
        "timestamp_field='at' is not a column": {"trigger": Never(), "window": "5s", "timestamp_field": "at"},
    }.items():
        with pytest.raises(ConfigError, match=f"(?s){match}"):
            check_policy(ROWS, cuts=2, other_process=False, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="are not rows of an input 'ts'"):
        check_policy(ROWS[0], trigger=Third(), window="5s")
    with pytest.raises(ConfigError, match="is not a column of the events of 'asks'"):
        check_policy({"bids": ROWS, "asks": [{"at": 1}]}, trigger=Third(), window="5s")
    with pytest.raises(ConfigError, match=r"columns are not known.*schema={'asks':"):
        check_policy({"bids": ROWS, "asks": []}, trigger=Third(), window="5s")


BIDS = [{"ts": 2_000 * at, "price": 10.0 + at % 4} for at in range(6)]
ASKS = [{"ts": 2_000 * at + 1_000, "price": 13.0 - at % 3, "venue": "xy"[at % 2]} for at in range(5)]


class Crossed(TriggerPolicy):
    """When the latest bid is as high as the latest ask."""

    reads = "price"
    state_types: ClassVar[dict[str, type]] = {"bids": float, "asks": float}

    def start(self, state: dict[str, Any]) -> None:
        state["asks"] = 99.0

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
        context.state[event.stream] = event["price"]
        return bool(context.state["bids"] >= context.state["asks"])


class OfTwoStreams(EvictionPolicy):
    """The new events, of asks those at a venue."""

    reads = "venue"

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        good = event.stream == "bids" or event["venue"] == "x"
        return Action.PROCESS if good and event.number >= context.fired_count else Action.EXPIRE

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        good = (events.streams == "bids") | (events["venue"] == "x")
        return np.where(good & (events.numbers >= context.fired_count), Action.PROCESS, Action.EXPIRE)


def test_events_of_two_inputs_come_in_order_of_time_and_say_their_stream() -> None:
    check = check_policy({"bids": BIDS, "asks": ASKS}, eviction=OfTwoStreams(), trigger=Crossed(), cuts=6)
    assert [(each.end_timestamp, each.streams) for each in check.windows] == [
        (4_000_000, ["bids", "asks", "bids", "bids"]),
        (5_000_000, ["asks"]),
        (6_000_000, ["bids"]),
    ]
    assert check.windows[0].events == [BIDS[0], ASKS[0], BIDS[1], BIDS[2]]
    assert check.notes == []


def test_a_policy_that_is_wrong_with_two_inputs_only_is_found() -> None:
    class Turn(TriggerPolicy):
        """Fires where the stream changes."""

        before = ""

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            before, self.before = self.before, event.stream
            return before not in ("", event.stream)

    given = {"eviction": All(), "trigger": Turn(), "cuts": 4, "other_process": False}
    with pytest.raises(ConfigError, match="no window fires"):
        check_policy({"bids": BIDS}, **given)  # type: ignore[arg-type]
    error = found(rows={"bids": BIDS, "asks": ASKS}, eviction=All(), trigger=Turn())
    assert "Turn has changed self.before" in str(error)
    assert isinstance(error.events, dict)
    assert {name: len(rows) for name, rows in error.events.items()} == {"bids": 1, "asks": 1}
    assert "1  00:00:07  asks  price 13.0, venue y" in str(error)


def test_a_policy_that_goes_by_the_order_of_inputs_is_found() -> None:
    class Settled(Crossed):
        """Decides behind all events of one time."""

        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            context.state[event.stream] = event["price"]
            context.wake_at = event.timestamp + 1
            return False

        def on_time(self, time: int, context: TriggerContext) -> bool:
            return bool(context.state["bids"] >= context.state["asks"])

    at_once = {
        "bids": [{"ts": 1_000, "price": 10.0}, {"ts": 2_000, "price": 11.0}],
        "asks": [{"ts": 1_000, "price": 11.0}, {"ts": 2_000, "price": 12.0}, {"ts": 3_000, "price": 9.0}],
    }
    error = found(rows=at_once, eviction=All(), trigger=Crossed())
    assert "Crossed() has other windows when its inputs come in another order" in str(error).replace("All() with ", "")
    assert "price 12.0" in str(error)
    assert [line.endswith("<- differs") for line in str(error).splitlines()[3:6]] == [True, True, False]
    check = check_policy(at_once, eviction=All(), trigger=Settled(), cuts=4, other_process=False)
    assert [len(each.events) for each in check.windows] == [5]
    by_arrival = check_policy(at_once, eviction=All(), trigger=OnFlushOfAsks(), cuts=4, other_process=False)
    assert by_arrival.notes == ["that windows do not depend on the order of the inputs (on_arrival follows arrival)"]


class OnFlushOfAsks(TriggerPolicy):
    """At once with a low ask."""

    def on_arrival(self, event: QueuedEvent) -> bool:
        return bool(event.stream == "asks" and event["price"] < 10)


@st.composite
def two_inputs(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    times = draw(st.lists(st.integers(0, 30), min_size=2, max_size=12, unique=True))
    bids = draw(st.integers(1, 6))
    return {
        "bids": [{"ts": 1_000 * at, "price": 10.0 + at % 4} for at in times[:bids]],
        "asks": [{"ts": 1_000 * at, "price": 9.0 + at % 3, "venue": "x"} for at in times[bids:]],
    }


class Tenths(TriggerPolicy):
    """Fires with each whole number that a sum of tenths passes; the sum of a call is added to the one before."""

    state_types: ClassVar[dict[str, type]] = {"total": float}

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        totals = context.state["total"] + np.cumsum(events["price"])
        before = np.concatenate([[context.state["total"]], totals[:-1]])
        context.state["total"] = float(totals[-1])
        return totals // 1 > before // 1


class TenthsFromTheState(Tenths):
    """The same, whose sum begins with the state."""

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        totals = np.cumsum([context.state["total"], *events["price"]])
        context.state["total"] = float(totals[-1])
        return totals[1:] // 1 > totals[:-1] // 1


def test_sums_of_floats_that_are_rounded_otherwise_are_found() -> None:
    tenths = [7, 1, 2, 9, 3, 4, 8, 6, 1, 9, 2, 8] * 3
    rows = [{"ts": 1_000 * at, "price": each / 10} for at, each in enumerate(tenths)]
    assert "has other windows when batches end elsewhere" in str(found(rows=rows, eviction=All(), trigger=Tenths()))
    assert check_policy(rows, eviction=All(), trigger=TenthsFromTheState(), cuts=6, other_process=False).windows


def test_several_inputs_may_be_drawn_and_timed_by_the_clock() -> None:
    schema = {"bids": "ts long, price double", "asks": "ts long, price double, venue string"}
    check = check_policy(
        two_inputs(), eviction=OfTwoStreams(), trigger=Crossed(), schema=schema, cuts=6, examples=6, other_process=False
    )
    assert check.inputs > 3
    clocked = check_policy(
        {"bids": BIDS, "asks": ASKS},
        eviction=OfTwoStreams(),
        trigger=Crossed(),
        timestamp_field=None,
        clock={"bids": [2_000 * at for at in range(6)], "asks": [2_000 * at + 1_000 for at in range(5)]},
        cuts=4,
        other_process=False,
    )
    assert [each.end_timestamp for each in clocked.windows] == [4_000_000, 5_000_000, 6_000_000]


def test_an_input_may_be_called_bolt() -> None:
    checked = check_policy(
        {"bolt": BIDS, "bolt_": BIDS[:0]}, eviction=All(), trigger=Third(), schema="ts long, price double", cuts=2
    )
    assert {stream for window in checked.windows for stream in window.streams} == {"bolt"}


@pytest.mark.parametrize(
    ("clock", "told"),
    [
        ([1], "clock is one list, and there are several inputs"),
        ({"bids": [1], "ask": [2]}, r"clock has times of \['ask'\]. the inputs are 'bids', 'asks'"),
        ({"bids": [1]}, "clock has 0 times for 1 events of 'asks'"),
    ],
)
def test_of_several_inputs_it_is_said_whose_clock_it_is(clock: Any, told: str) -> None:
    rows = {"bids": BIDS[:1], "asks": ASKS[:1]}
    with pytest.raises(ConfigError, match=told):
        check_policy(rows, eviction=All(), trigger=Third(), timestamp_field=None, clock=clock)
