"""Rolling windows of the calendar where clocks do not change: the same as hopping windows, whatever else a bolt has."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, assume, event, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import crashing, run_cut
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import Scenario, read_scenario
from windowing.errors import ConfigError, TopologyError

Json = dict[str, Any]
HALF_HOUR = 30 * 60 * 1_000
PANES: list[Json] = [
    {"early": 2}, {"early": 2, "late": True}, {"early": 1, "mode": "discarding"}, {"early": 2, "closes": True},
    {"at_end": 2}, {"early": {"event_time": "1h"}, "late": 2},
]  # fmt: skip


@st.composite
def rules(draw: st.DrawFn) -> Json:
    """What a bolt may have besides its windows."""
    bolt: Json = {"timestamp_field": "ts", "bounds": draw(st.sampled_from(["[start, end)", "(start, end]"]))}
    bolt["key"] = "k"  # windows without a key are runs of a queue, which have other rules for what is new and expired
    if draw(st.booleans()):
        bolt["lag"] = draw(st.sampled_from(["30m", "2h"]))
    if draw(st.booleans()):
        bolt["watermark_every"] = draw(st.sampled_from([1, 2]))
    if draw(st.booleans()):
        bolt |= {"late_by": "window", "allowed_lateness": draw(st.sampled_from(["0s", "90m", "4h"]))}
    elif draw(st.booleans()):
        bolt["late"] = draw(st.sampled_from(["drop", "adjust"]))
    match draw(st.sampled_from(["panes", "empty", "ids", "lasting", "idle", "none"])):
        case "panes":
            bolt["panes"] = draw(st.sampled_from(PANES))
        case "empty":
            bolt["empty_windows_until"] = draw(st.sampled_from(["1h", "5h"]))
        case "ids":
            bolt["message_id_field"] = "m"
        case "lasting":
            bolt["end_field"] = "until"
        case "idle":
            bolt["idle_timeout"] = draw(st.sampled_from(["30m", "3h"]))
    return bolt


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Json, int]:
    bolt, steps, now, clock = draw(rules()), list[Json](), 10 * HALF_HOUR, 0
    for number, move in enumerate(draw(st.lists(st.sampled_from(["on", "on", "back", "tick", "leap"]), max_size=20))):
        if move == "tick":
            clock += draw(st.integers(0, 3)) * HALF_HOUR
            steps.append({"clock": clock} if "idle_timeout" in bolt else {"tick": "watermark"})
            continue
        now += {"on": draw(st.integers(0, 3)), "leap": 15}.get(move, 0) * HALF_HOUR
        at = now - (draw(st.integers(1, 8)) * HALF_HOUR if move == "back" else 0) + draw(st.integers(-1, 1))
        fields = {"id": f"e{number}", "ts": at, "k": draw(st.sampled_from("aab")), "m": draw(st.sampled_from("xyz"))}
        fields["until"] = at + draw(st.integers(0, 9)) * HALF_HOUR
        steps.append({"event": fields, **({"clock": clock} if "idle_timeout" in bolt else {})})
    return {"name": "rolling", "bolt": bolt, "steps": [*steps, {"close": True}]}, draw(st.integers(1, 6))


def with_windows(scenario: Json, windows: Json) -> Scenario:
    return read_scenario({**scenario, "bolt": {**scenario["bolt"], **windows}})


def answered(scenario: Scenario, seed: int | None) -> Any:
    try:
        answer = replay_locally(scenario) if seed is None else run_cut(scenario, random.Random(seed))
    except (ConfigError, TopologyError):
        event("refused")
        return None
    return answer.windows, answer.late, answer.pending, answer.counts, answer.invalid


@examples(60, by_default=12, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), st.integers(0, 1 << 20))
def test_rolling_hours_are_hopping_windows(drawn: tuple[Json, int], seed: int) -> None:
    scenario, last = drawn
    hopping = with_windows(scenario, {"length": f"{last}h", "sliding": "1h"})
    rolling = with_windows(scenario, {"calendar": {"unit": "hour", "zone": "UTC", "last": last}})
    expected = answered(hopping, None)
    assert answered(rolling, None) == expected
    assume(expected is not None)
    assert answered(crashing(rolling), None) == answered(crashing(hopping), None)
    assert answered(rolling, seed) == answered(hopping, seed)
