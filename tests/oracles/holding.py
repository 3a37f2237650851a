"""Holding random scenarios against an oracle, and making those that differ small."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import yaml

from tests.oracles.expected import Expected, Json, Unsaid, differences
from windbolt import replay

Oracle = Callable[[Json], list[Expected]]  # one, or one for each reading that the documents allow


@dataclass(frozen=True)
class Difference:
    """A scenario whose answer is not the oracle's, as small as it could be made."""

    number: int
    scenario: Json
    found: list[str]


@dataclass(frozen=True)
class Held:
    """How many scenarios were compared, of how many the documents do not say what is right, and which differ."""

    compared: int
    unsaid: int
    differences: list[Difference]

    def shown(self) -> str:
        """For a reader: the differing scenarios, as they can be pasted into a file."""
        return "\n\n".join(
            "\n".join([f"# case {one.number}", *(f"# {line}" for line in one.found), yaml.safe_dump(one.scenario)])
            for one in self.differences
        )


def differs(scenario: Json, oracle: Oracle) -> list[str]:
    """How windbolt's answer differs; `Unsaid` passes through."""
    expected = oracle(scenario)
    try:
        answer = replay(scenario)
    except Exception as error:
        return [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    found = [differences(one, answer.to_json()) for one in expected]
    return [] if [] in found else found[0]


def smaller(scenario: Json, oracle: Oracle) -> tuple[Json, list[str]]:
    """The scenario without every step, and every setting, that the difference does not need."""
    found = differs(scenario, oracle)
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in _without_one(scenario):
            try:
                now = differs(candidate, oracle)
            except Exception:
                continue
            if now and not now[0].startswith(("ConfigError", "ScenarioError")):
                scenario, found, shrunk = candidate, now, True
                break
    return scenario, found


def _without_one(scenario: Json) -> list[Json]:
    steps = scenario["steps"]
    fewer = [{**scenario, "steps": steps[:place] + steps[place + 1 :]} for place in reversed(range(len(steps)))]
    bolt = scenario["bolt"]
    for name in {"offset", "key"} & set(bolt):
        fewer += [{**scenario, "bolt": {key: value for key, value in bolt.items() if key != name}}]
    return fewer


def recut(random: Random, scenario: Json) -> Json:
    """The same with its batches cut elsewhere, and a crash here and there: it must change nothing."""
    steps: list[Json] = []
    for step in scenario["steps"]:
        steps.append(step)
        if "event" in step and random.random() < 0.4:
            steps.append({"tick": "watermark"})
        if "close" not in step and random.random() < 0.1:
            steps.append({"crash": True})
    return {**scenario, "steps": steps}


def hold(make: Callable[[Random], Json], oracle: Oracle, numbers: Iterable[int], seed: int) -> Held:
    """Random scenarios by their numbers, every fourth of them cut elsewhere; those that differ are made small."""
    compared, unsaid, found = 0, 0, []
    for number in numbers:
        random = Random(seed * 1_000_003 + number)
        scenario = make(random)
        if number % 4 == 0:
            scenario = recut(random, scenario)
        try:
            wrong = differs(scenario, oracle)
        except Unsaid:
            unsaid += 1
            continue
        compared += 1
        if wrong:
            found.append(Difference(number, *smaller(scenario, oracle)))
    return Held(compared, unsaid, found)
