"""Random scenarios with watermarks at events: the engine answers as the slow oracle, however its batches are cut."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, assume, event, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from tests.oracles import time_oracle
from tests.oracles.units import duration
from tests.oracles.window_oracle import EPOCH
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario, read_scenario
from windowing.errors import ConfigError, TopologyError

Json = dict[str, Any]

EXAMPLES = examples(150, suppress_health_check=[HealthCheck.too_slow])
ACCOUNTS = ("windowed", "late", "early", "dropped", "duplicate", "invalid", "unwindowed", "purged", "pending")
SYSTEMS = ("rules", "atlas", "azure", "streaminsight")

# ---- scenarios


def ms(number: int) -> str:
    return f"{number}ms"


@st.composite
def durations(draw: st.DrawFn, least: int = 0, most: int = 10) -> str:
    return ms(draw(st.integers(least, most)))


@st.composite
def windows(draw: st.DrawFn) -> Json:
    """What the windows are: aligned ones, also with gaps, and each other kind."""
    match draw(st.sampled_from(["tumbling", "hopping", "hopping", "session", "log", "snapshot", "count", "several"])):
        case "tumbling":
            return {"length": draw(durations(1)), "tumbling": True}
        case "hopping":
            return {"length": draw(durations(1)), "sliding": draw(durations(1))}
        case "session":
            return {"session": draw(sessions())}
        case "log":
            return {"sliding_log": draw(durations(1))}
        case "snapshot":
            return {"snapshot": True}
        case "count":
            return {"count_by_start": draw(st.integers(1, 4))}
        case _:
            return {"windows": draw(st.lists(several(), min_size=1, max_size=3))}


@st.composite
def sessions(draw: st.DrawFn) -> Json:
    touching, longest = draw(st.booleans()), draw(st.none() | st.none() | durations(3, 12))
    session = {"gap": draw(durations(1, 6)), "touching": touching}
    return session if longest is None else {**session, "max_duration": longest}


def several() -> st.SearchStrategy[Json]:
    return st.one_of(
        st.builds(lambda length: {"tumbling": length}, durations(1)),
        st.builds(lambda length, slide: {"hopping": {"length": length, "slide": slide}}, durations(1), durations(1)),
        st.builds(lambda session: {"session": session}, sessions()),
        st.builds(lambda length: {"sliding_log": length}, durations(1)),
        st.just({"snapshot": True}),
        st.builds(lambda count: {"count_by_start": count}, st.integers(1, 3)),
    )


def longest_slide(bolt: Json) -> int:
    """In milliseconds, of the aligned windows of a bolt."""
    if "length" in bolt:
        slides = [bolt["length"] if bolt.get("tumbling") else bolt["sliding"]]
    else:
        slides = [kind["tumbling"] for kind in bolt["windows"] if "tumbling" in kind]
        slides += [kind["hopping"]["slide"] for kind in bolt["windows"] if "hopping" in kind]
    return max(map(duration, slides)) // 1000


def is_aligned(bolt: Json) -> bool:
    return "length" in bolt or any("tumbling" in kind or "hopping" in kind for kind in bolt.get("windows", ()))


@st.composite
def bolts(draw: st.DrawFn, system: str, streams: list[str], kinds: st.SearchStrategy[Json]) -> Json:
    """The settings: those of a system, or any that go together."""
    bolt: Json = {"timestamp_field": "ts", **draw(kinds)}
    parted = draw(st.integers(0, 3)) == 0
    keyed = draw(st.sampled_from(["none", "none", "key", "keys", "substreams"]))
    bolt.update(
        {"key": {"key": ["k"]}, "keys": {"key": ["k", "q"]}, "substreams": {"substreams": ["k"]}}.get(keyed, {})
    )
    parted = parted and keyed != "substreams"
    fastest = (parted or len(streams) > 1) and keyed != "substreams" and draw(st.integers(0, 3)) == 0
    waits = (parted or len(streams) > 1) and keyed != "substreams" and not fastest
    if is_aligned(bolt) and draw(st.booleans()):
        bolt["offset"] = draw(st.sampled_from(["", "-"])) + draw(durations(0, 2 * longest_slide(bolt)))
    match system:
        case "rules":
            bolt.update(draw(single_rules(bolt)))
        case "atlas":
            atlas: Json = {"allowed_lateness": draw(durations(0, 6))} if draw(st.booleans()) else {}
            if draw(st.integers(0, 2)) == 0:
                atlas["allowed_lateness"] = "0s"
                atlas["idle_timeout"] = draw(durations(1, 9))
                atlas["idle_rule"] = draw(st.sampled_from(["after_window_end", "max_remaining"]))
            if waits and draw(st.integers(0, 2)) == 0:
                atlas["partition_idle_timeout"] = f"{draw(st.integers(0, 9))}500us"  # no event comes at the instant
            bolt["preset"] = {"atlas": atlas} if atlas else "atlas"
        case "azure":
            azure: Json = {
                "late": draw(st.none() | durations(0, 8)),
                "out_of_order": draw(durations(0, 6)),
                "early": draw(st.none() | durations(0, 8)),
                "action": draw(st.sampled_from(["adjust", "drop"])),
                "arrival_field": "at",
            }
            bolt["preset"] = {"azure": azure}
        case "streaminsight":
            bolt["preset"] = {"streaminsight": draw(advance_time(streams))}
    by_window = bolt.get("late_by") == "window" or "atlas" in str(bolt.get("preset"))
    if "session" in bolt and by_window and draw(st.booleans()):
        bolt["late_by_session"] = True
    if parted:
        bolt["watermark_partition"] = "p"
    if fastest:
        bolt["watermark_combine"] = "max"
    if draw(st.integers(0, 4)) == 0:
        bolt["close_fires"] = False
    return bolt


@st.composite
def single_rules(draw: st.DrawFn, windows: Json) -> Json:
    """Rules one by one, upon Storm's, for these windows."""
    bolt: Json = {
        "watermark_every": draw(st.sampled_from([1, 1, 2, 3, "1ms", "3ms", "7ms"])),
        "lag": draw(durations(0, 6)),
    }
    if is_aligned(windows) or "snapshot" in windows:
        bolt["bounds"] = draw(st.sampled_from(["(start, end]", "[start, end)"]))
    if bolt.get("bounds") != "[start, end)" and (
        "length" in windows or windows.get("session", {}).get("touching") is False
    ):
        bolt["closes_after_end"] = draw(st.booleans())
    if draw(st.booleans()):
        bolt["late_by"], bolt["allowed_lateness"] = "window", draw(durations(0, 6))
        bolt["late"] = draw(st.sampled_from(["divert", "drop"]))
    else:
        bolt["late"] = draw(st.sampled_from(["divert", "drop", "adjust"]))
    if draw(st.integers(0, 2)) == 0:
        early, late = draw(st.none() | durations(0, 8)), draw(st.none() | durations(0, 8))
        action = {"action": draw(st.sampled_from(["adjust", "drop", "divert"]))} if late is not None else {}
        if early is not None or late is not None:
            bolt["arrival"] = {"field": "at", "early": early, "late": late, **action}
    return bolt


@st.composite
def advance_time(draw: st.DrawFn, streams: list[str]) -> Json:
    """The arguments of the preset of StreamInsight."""
    given: Json = {
        "delay": draw(durations(0, 5) | st.just("-1us")),
        "policy": draw(st.sampled_from(["drop", "adjust"])),
        "to_infinity": draw(st.booleans()),
    }
    if draw(st.booleans()):
        given["every"] = draw(st.sampled_from([1, 2, 3, "3ms"]))
    if len(streams) > 1 and draw(st.booleans()):
        given["imports"] = {streams[1]: streams[0]}
    elif draw(st.booleans()):
        given["field"] = "cti"
        if draw(st.booleans()):
            given["every"] = None
            del given["delay"]  # there is nothing that it would delay
    return given


@st.composite
def steps(draw: st.DrawFn, bolt: Json, streams: list[str], rules: Json) -> list[Json]:
    """Events around a time that wanders on: by a little, a tie, a step back, a leap."""
    moves = st.one_of(
        st.tuples(st.just("on"), st.integers(0, 3)),
        st.tuples(st.just("on"), st.integers(0, 3)),
        st.tuples(st.just("back"), st.integers(1, 9)),
        st.tuples(st.just("leap"), st.sampled_from([7, 20])),
        st.tuples(st.just("watermark"), st.integers(-4, 3)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("clock"), st.integers(1, 12)),
    )
    now, found, number = draw(st.sampled_from([0, 0, -7, 3])), [], 0
    has_clock = any(
        rules[name] not in (None, False) for name in ("idle_timeout", "partition_idle_timeout", "estimate_arrival")
    )
    follows_arrivals = rules["estimate_arrival"] and (len(streams) > 1 or "watermark_partition" in bolt)
    by_timeout = rules["idle_timeout"] is not None or rules["partition_idle_timeout"] is not None  # of whole batches
    clock = latest = now
    for what, size in draw(st.lists(moves, max_size=24)):
        if what == "crash":
            found.append({"crash": True})
            continue
        if what == "clock":
            clock += size
            found += [{"clock": clock}] if has_clock else []
            continue
        number += 1
        fields: Json = {"id": f"e{number}"}
        if what == "watermark" and rules["field"] is not None:
            fields[rules["field"]] = now + size
        elif what == "back":
            fields["ts"] = now - size
        else:
            now += abs(size)
            fields["ts"] = now
        step: Json = {"event": fields}
        if has_clock:
            clock += draw(st.sampled_from([0, 0, 1, 3]))
            step["clock" if by_timeout else draw(st.sampled_from(["clock", "arrival"]))] = clock
        if len(streams) > 1:
            step["stream"] = draw(st.sampled_from(streams))
        for name in bolt.get("key") or bolt.get("substreams") or ():
            value = draw(st.sampled_from(["a", "a", "b", None]))
            fields.update({} if value is None else {name: value})
        if "watermark_partition" in bolt:
            value = draw(st.sampled_from(["x", "x", "y", None]))
            fields.update({} if value is None else {"p": value})
        if rules["arrival"] is not None:
            arrived = now + draw(st.sampled_from([0, 0, 0, -12, -6, 3, 5, 9]))
            if follows_arrivals:  # in order: out of order, where batches end makes a difference
                arrived = latest = max(arrived, latest)
            fields[rules["arrival"]] = arrived
        found.append(step)
    return [*found, {"close": True}] if draw(st.booleans()) else found


def is_spoilt(bolt: Json, rules: Json) -> bool:
    """Settings whose answers are not laid down, or depend on where batches end by their nature."""
    # The lower bound of substreams follows the arrivals of a batch; it is right where arrivals do not go back.
    if "substreams" in bolt and rules["late_arrival"] is not None:
        return True
    # An event that is moved to just after the watermark moves the watermark no further, which the oracle does not know.
    if rules["late"] == "adjust" and bolt.get("closes_after_end") is False:
        return True
    # What the partitions of an input that imports are before it has delivered.
    return bool(rules["imports"]) and "watermark_partition" in bolt


@st.composite
def scenarios(
    draw: st.DrawFn, systems: tuple[str, ...] = SYSTEMS, kinds: st.SearchStrategy[Json] | None = None
) -> Json:
    system = draw(st.sampled_from(systems))
    streams = ["s1", "s2", "s3"][: draw(st.sampled_from([1, 1, 2, 3]))]
    bolt = draw(bolts(system, streams, windows() if kinds is None else kinds))
    rules = time_oracle.read_rules(bolt)
    assume(not is_spoilt(bolt, rules))
    scenario = {"name": system, "bolt": bolt, "streams": streams, "steps": draw(steps(bolt, streams, rules))}
    if "watermark_partition" in bolt and draw(st.booleans()):
        names = st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3, unique=True)
        scenario["partitions"] = draw(names | st.dictionaries(st.sampled_from(streams), names, min_size=1))
    return scenario


# ---- answers


def of_each_key(found: list[Json]) -> dict[str, list[Json]]:
    """The windows of each key and kind, in their order."""
    grouped: dict[str, list[Json]] = {}
    for window in found:
        grouped.setdefault(f"{window.get('key')} {window.get('kind')}", []).append(window)
    return grouped


def assert_same(scenario: Json, answer: ReplayResult) -> None:
    expected, found = time_oracle.answer(scenario), answer.to_json()
    settle_gaps(scenario, expected, found)
    if "substreams" in scenario["bolt"]:  # there is no watermark of the whole bolt
        for each in (*expected["events"], *found["events"]):
            each.pop("watermark")
    for window in (*expected["windows"], *found["windows"]):
        window.setdefault("key", None)
        window.pop("expired")  # only a queue knows; tests/topologies/engine/test_window_properties.py looks at it
    for wanted, got in zip(expected["events"], found["events"], strict=False):
        if got["action"] == "unwindowed":  # and was moved before, perhaps
            wanted["action"] = "unwindowed"
    for each in (*expected["events"], *found["events"]):  # assigned windows find out later that an event is in none
        each["action"] = "accepted" if each["action"] == "unwindowed" else each["action"]
    assert found["events"] == expected["events"]
    assert of_each_key(found["windows"]) == of_each_key(expected["windows"])
    assert found["late"] == expected["late"]
    assert found["counts"] == expected["counts"]
    assert sorted(found["pending"]) == sorted(expected["pending"])
    assert found["clocks"] == expected["clocks"]


def settle_gaps(scenario: Json, expected: Json, found: Json) -> None:
    """Take out what is not laid down: when an event between assigned windows becomes unwindowed, and one more."""
    in_gap = found["pending"] and set(found["pending"]) - set(expected["pending"])
    if in_gap:
        assert time_oracle.in_gaps(scenario) >= set(in_gap)
        found["pending"] = [name for name in found["pending"] if name not in in_gap]
        found["counts"]["pending"] -= len(in_gap)
        found["counts"]["unwindowed"] += len(in_gap)
    rules = time_oracle.read_rules(scenario["bolt"])
    # engine: the mark of an adjusted event's input follows the event's own time, not the one it was assigned.
    apart = rules["over"] == "max" or rules["estimate_arrival"] or "watermark_partition" in scenario["bolt"]
    if rules["late"] == "adjust" and apart:
        for each in (*expected["events"], *found["events"]):
            each.pop("mark")


def read(scenario: Json) -> Scenario:
    return read_scenario(scenario)


def built(scenario: Json) -> ReplayResult:
    """The engine's answer; settings that do not go together are no example."""
    try:
        answer = replay_locally(read(scenario))
    except (ConfigError, TopologyError):
        event("refused")
        assume(False)
        raise
    event("accepted")
    return answer


@EXAMPLES
@given(scenarios())
def test_the_engine_answers_as_the_oracle(scenario: Json) -> None:
    assert_same(scenario, built(scenario))


@EXAMPLES
@given(scenarios(), st.integers(0, 1 << 30))
def test_batches_may_end_anywhere_and_processes_be_restarted(scenario: Json, seed: int) -> None:
    built(scenario)
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    assert_same(scenario, run_cut(read(calm), random.Random(seed)))


SLIDING_LOGS = scenarios(("rules", "atlas"), durations(1).map(lambda length: {"sliding_log": length}))


@EXAMPLES
@given(SLIDING_LOGS, st.integers(0, 1 << 30))
def test_sliding_logs_that_are_late_by_window_are_those_of_the_oracle_however_batches_end(
    scenario: Json, seed: int
) -> None:
    assume(time_oracle.read_rules(scenario["bolt"])["late_by"] == "window")
    assert_same(scenario, built(scenario))
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    assert_same(scenario, run_cut(read(calm), random.Random(seed)))


@st.composite
def long_sessions(draw: st.DrawFn) -> Json:
    """Sessions that the clock cuts, and events that come from before the cut."""
    session = {**draw(sessions()), "gap": draw(durations(2, 9)), "max_duration": draw(durations(3, 8))}
    bolt: Json = {"timestamp_field": "ts", "session": session, "watermark_every": 1}
    if draw(st.integers(0, 3)):
        bolt |= {"late_by": "window", "late_by_session": draw(st.booleans())}
        bolt["allowed_lateness"] = draw(durations(0, 9))
    if draw(st.booleans()):
        bolt["key"] = ["k"]
    now, found = 0, []
    for number in range(draw(st.integers(8, 24))):
        now += draw(st.integers(0, 3))
        at = now - draw(st.sampled_from([0, 0, 0, 1, 3, 6, 9, 12, 16]))
        fields = {"id": f"e{number}", "ts": at}
        if "key" in bolt:
            fields["k"] = draw(st.sampled_from("aaab"))
        found.append({"event": fields})
    return {"name": "long sessions", "bolt": bolt, "steps": [*found, {"close": True}]}


@EXAMPLES
@given(long_sessions() | scenarios(("atlas",), sessions().map(lambda session: {"session": session})))
def test_sessions_that_the_clock_cuts_are_those_of_the_oracle(scenario: Json) -> None:
    assert_same(scenario, built(scenario))


SESSIONS = scenarios(("rules", "atlas"), sessions().map(lambda session: {"session": session}))


@EXAMPLES
@given(SESSIONS, st.integers(0, 1 << 30))
def test_sessions_are_those_of_the_oracle_to_the_microsecond(scenario: Json, seed: int) -> None:
    """What lasted a millisecond lasts a microsecond: whether a time is before another one or at it is all that there
    is."""
    scenario = in_microseconds(scenario)
    assert_same(scenario, built(scenario))
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    assert_same(scenario, run_cut(read(calm), random.Random(seed)))


def in_microseconds(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: in_microseconds(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [in_microseconds(each) for each in value]
    if name in ("ts", "at", "clock", "arrival") and isinstance(value, int):
        return (EPOCH + timedelta(microseconds=value)).isoformat()
    return re.sub(r"^(\d+)ms$", r"\1us", value) if isinstance(value, str) else value


@EXAMPLES
@given(long_sessions(), st.integers(0, 1 << 30))
def test_where_batches_end_does_not_matter_to_sessions_that_the_clock_cuts(scenario: Json, seed: int) -> None:
    assert_same(scenario, run_cut(read(scenario), random.Random(seed)))


@EXAMPLES
@given(scenarios())
def test_the_accounts_add_up(scenario: Json) -> None:
    answer = built(scenario)
    assert answer.counts["received"] == sum(answer.counts.get(account, 0) for account in ACCOUNTS)
    received = [event.id for event in read(scenario).event_steps if not read(scenario).is_watermark(event)]
    shown = {name for window in answer.windows for name in window["events"] or ()}
    assert answer.counts["received"] == len(received)
    assert answer.counts["windowed"] == len(shown)
    assert answer.counts["pending"] == len(answer.pending) == len(set(answer.pending))
    assert not shown & set(answer.pending)
    assert not shown & set(answer.late)


def test_most_scenarios_are_accepted() -> None:
    """The strategy draws few settings that do not go together."""
    found: list[bool] = []

    @examples(200, by_default=80, database=None, suppress_health_check=list(HealthCheck))
    @given(scenarios())
    def draw(scenario: Json) -> None:
        try:
            replay_locally(read({**scenario, "steps": []}))
        except (ConfigError, TopologyError):
            found.append(False)
        else:
            found.append(True)

    draw()
    assert found.count(True) > 0.5 * len(found)
