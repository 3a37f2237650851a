"""A method that looks like a hook, and that nobody calls, is refused as the topology is built."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatchmethod, wraps
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import pytest

from policies.storm import TimeEvictionPolicy
from windbolt import (
    StatefulBolt,
    StatefulWindowedBolt,
    TopologyBuilder,
    TopologyError,
    WindowedBolt,
    seconds,
    sinks,
    spouts,
)
from windbolt.policies import Action, EvictionPolicy, TriggerPolicy


def built(bolt: Any) -> str:
    """What a topology with this bolt is refused for; empty where it is built."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("user string, ts timestamp", [("ann", 1_000)]))
    builder.set_bolt("bolt", bolt).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    try:
        builder.build()
    except TopologyError as error:
        return str(error)
    return ""


class Number(WindowedBolt):
    """How many events a window holds."""

    outputs = "events long"

    def execute(self, window: Any) -> Any:
        """A row."""
        return (len(window),)


class Never(TriggerPolicy):
    """Fires at no event."""

    def track(self, event: Any, context: Any) -> Any:
        """False."""
        return False


class All(EvictionPolicy):
    """Holds all events."""

    def evict(self, event: Any, context: Any) -> Action:
        """PROCESS."""
        return Action.PROCESS


def fired_by(trigger: TriggerPolicy, eviction: EvictionPolicy | None = None) -> WindowedBolt:
    eviction = eviction or TimeEvictionPolicy(seconds(10))
    return Number().with_policies(trigger=trigger, eviction=eviction).with_timestamp_field("ts")


def in_windows(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_tumbling_window("10s").with_timestamp_field("ts")


class OnTimer(Never):
    def on_timer(self, time: int, context: Any) -> bool:
        return True


class OnItem(ABC, Never):
    def on_item(self, event: Any) -> bool:
        return True


class OnEvent(Never):
    def on_event(self, event: Any, context: Any) -> bool:
        return True


class TrackAlls(Never):
    def track_alls(self, events: Any, context: Any) -> Any:
        return None


class Evicts(All):
    def evicts(self, event: Any, context: Any) -> Any:
        return None


class Prepares(Number):
    def prepares(self, context: Any) -> None:
        """Load what is needed."""


class Forgets(StatefulWindowedBolt):
    outputs = "events long"
    state_types: ClassVar[dict[str, type]] = {"seen": int}

    def execute(self, window: Any) -> Any:
        return (1,)

    def forgets(self, key: Any) -> None:
        """Called for no key."""


class OnMinute(StatefulBolt):
    outputs = "events long"
    state_types: ClassVar[dict[str, type]] = {"seen": int}

    def execute(self, tuple: Any) -> Any:
        return (1,)

    def on_minute(self, clock: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("bolt", "method", "hook"),
    [
        (fired_by(OnTimer()), "OnTimer.on_timer", "on_time"),
        (fired_by(OnItem()), "OnItem.on_item", "on_arrival"),
        (fired_by(OnEvent()), "OnEvent.on_event", "on_time or track"),
        (fired_by(TrackAlls()), "TrackAlls.track_alls", "track_all"),
        (fired_by(Never(), Evicts()), "Evicts.evicts", "evict"),
        (in_windows(Prepares()), "Prepares.prepares", "prepare"),
        (in_windows(Forgets()).with_key("user"), "Forgets.forgets", "forget"),
        (OnMinute().with_key("user"), "OnMinute.on_minute", "on_clock"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_method_with_a_name_like_a_hook_is_refused_with_its_line(bolt: Any, method: str, hook: str) -> None:
    said = built(bolt)
    assert f"{method} is never called, at {__file__}:" in said
    assert f"windbolt calls {hook}" in said


class Spiking(Never):
    """Hooks of its own, as of a base class of several policies."""

    def track(self, event: Any, context: Any) -> Any:
        return self.on_spike(event, context)

    def on_spike(self, event: Any, context: Any) -> bool:
        return False


class Spikes(Spiking):
    def on_spike(self, event: Any, context: Any) -> bool:
        return True


class Chosen(Never):
    def on_tick(self, event: Any, context: Any) -> bool:
        return False

    def track(self, event: Any, context: Any) -> Any:
        return getattr(self, {"tick": "on_tick"}["tick"])(event, context)


class OfOthers(Never):
    """Called by a function beside it."""

    def on_question(self, event: Any, context: Any) -> bool:
        return False


def asked(policy: OfOthers) -> bool:
    return policy.on_question(None, None)


def of_another_module(policy: Any) -> bool:
    """Stands in a module that a hook names."""
    return bool(policy.on_answer(None, None))


ELSEWHERE = ModuleType("elsewhere")
vars(ELSEWHERE)["asks"] = FunctionType(of_another_module.__code__, {})
del of_another_module


class OfAnotherModule(Never):
    """Called by a function of a module that the module of the class imports."""

    def track(self, event: Any, context: Any) -> Any:
        return ELSEWHERE.asks(self)

    def on_answer(self, event: Any, context: Any) -> bool:
        return True


class BesideManyNumbers(OfAnotherModule):
    numbers: ClassVar[list[int]] = list(range(1_000, 11_000))


class WithOtherArguments(Never):
    def on_level(self) -> float:
        return 1.0

    @staticmethod
    def on_grid(time: int, context: Any) -> int:
        return time

    @property
    def tracks(self) -> bool:
        return True

    def _on_timers(self, time: int, context: Any) -> None:
        """Called by none."""

    def peak(self, event: Any, context: Any) -> float:
        return 1.0

    def on_price(self, price: float) -> None:
        """Called from elsewhere; it has no argument of a hook."""


class InATable(Never):
    def on_spread(self, event: Any, context: Any) -> bool:
        return True

    found = (on_spread,)


CALLED: dict[str, Callable[..., bool]] = {}


def called(method: Callable[..., bool]) -> Callable[..., bool]:
    CALLED[method.__name__] = method
    return method


class InATableOfADecorator(Never):
    @called
    def on_load(self, event: Any, context: Any) -> bool:
        return True

    @singledispatchmethod
    def wanted(self, event: Any, context: Any) -> bool:
        return True

    @wanted.register
    def on_number(self, event: int, context: Any) -> bool:
        return True


def wrapped(method: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(method)
    def calling(*given: Any) -> bool:
        return method(*given)

    return calling


class NamedInside(Never):
    """Called by code in a property, a table and a class of the class."""

    @property
    @wrapped
    def first(self) -> bool:
        return self.on_first(None, None)

    others: ClassVar[dict[str, Callable[..., bool]]] = {"second": lambda self: self.on_second(None, None)}

    class Third:
        def call(self, policy: NamedInside) -> bool:
            return policy.on_third(None, None)

    def on_first(self, event: Any, context: Any) -> bool:
        return True

    def on_second(self, event: Any, context: Any) -> bool:
        return True

    def on_third(self, event: Any, context: Any) -> bool:
        return True


class Listener:
    """A class of another library, whose code is elsewhere."""

    def on_change(self, event: Any) -> bool:
        return True

    def evicts(self, event: Any, context: Any) -> bool:
        return True


class Listens(Listener, Never):
    def on_change(self, event: Any) -> bool:
        return False


@dataclass(slots=True)
class BesideTheHook(Never):
    def on_time(self, time: int, context: Any) -> bool:
        return True

    def on_times(self, time: int, context: Any) -> bool:
        return True


class OfTheOtherKind(All):
    def on_time(self, time: int, context: Any) -> bool:
        return True


@pytest.mark.parametrize(
    "policy",
    [
        Spikes(),
        Chosen(),
        OfOthers(),
        OfAnotherModule(),
        BesideManyNumbers(),
        WithOtherArguments(),
        BesideTheHook(),
        InATable(),
        InATableOfADecorator(),
        NamedInside(),
        Listens(),
    ],
    ids=repr,
)
def test_methods_of_a_user_s_own_are_left_alone(policy: TriggerPolicy) -> None:
    assert built(fired_by(policy)) == ""


def test_a_method_with_the_name_of_a_hook_of_the_other_kind_is_the_user_s_own() -> None:
    assert built(fired_by(Never(), OfTheOtherKind())) == ""


BY_NAME = """
from windbolt.policies import TriggerPolicy


class ByName(TriggerPolicy):
    def track(self, event, context):
        return getattr(self, NAME)(event, context)

    def on_buy(self, event, context):
        return True
"""


@pytest.mark.parametrize(
    "name", ["f'on_{event[0]}'", "'on_' + event[0]", "'on_%s' % event[0]", "'on_{}'.format(event[0])"]
)
def test_a_method_whose_name_is_put_together_is_the_user_s_own(name: str) -> None:
    space: dict[str, Any] = {"__name__": "by_name"}
    exec(BY_NAME.replace("NAME", name), space)
    assert built(fired_by(space["ByName"]())) == ""
