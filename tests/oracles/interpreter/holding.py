"""The product's answers held against the interpreter's, and what differs made small."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

import yaml

from tests.helpers.recut import run_cut
from tests.oracles.interpreter import asking, cases
from tests.oracles.interpreter.bolt import Stop
from tests.oracles.interpreter.driving import WAYS, Driven, Played, driven, may_have_tasks, standing, topology_of
from tests.oracles.interpreter.replayed import rules_of, run, source_of
from tests.oracles.interpreter.shrinking import shrunk
from tests.oracles.interpreter.values import Json
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.script import watched_topology
from windowing.durations import Duration
from windowing.errors import ConfigError, DataError, ScenarioError, TopologyError

VARIANTS = (
    "as it is", "cut", "split", "on disk", "hashed alike", "gone back", "rescaled", "copied", "cut", "repaired",
    "rescaled",
)  # fmt: skip
"""How the product comes to its answer (``driving``); "cut": other batches, for the interpreter too; "split": other
batches for the product alone, where the answer does not depend on them."""

IN_TURN = {
    "as it is": ("as it is", "asked", "saved"),
    "split": ("split", "asked"),
    "on disk": ("on disk", "saved"),
    "hashed alike": ("hashed alike", "asked"),
    "copied": ("copied", "saved"),
}
"""Those that take turns with others, so that numbers have the other variants that they had before."""


@dataclass(frozen=True)
class Difference:
    """A drawn case whose two answers differ, as small as it could be made."""

    number: int
    variant: str
    scenario: Json
    found: list[str]

    def shown(self) -> str:
        """As a scenario file, with both answers as comments."""
        return shown(f"case {self.number}, {self.variant}", self.found, self.scenario)


@dataclass
class Drawn:
    """A case: a bolt that ``build()`` accepts and a stream for it; or why it refuses these settings."""

    number: int
    names: tuple[str, ...]
    """The settings that it was drawn for, none where it is a group; the bolt may have others too."""
    variant: str
    made: Json | None
    reason: str = ""

    @property
    def settings(self) -> list[str]:
        """Those that the bolt has."""
        if self.made is None:
            return []
        by_source = {"watermark_partition"} if source_of(self.made) is not None else set[str]()
        return sorted((set(self.made["bolt"]) | by_source) & set(cases.VALUES))


@dataclass
class Held:
    """What became of drawn cases."""

    held: int = 0
    refused: int = 0
    differences: list[Difference] = field(default_factory=list)


ORDER = cases.pairs()
FIXED = 3 * len(ORDER)
"""The first cases of a seed: each setting and each pair of them, twice; and half as many groups of settings
between them. Of later ones two thirds are groups."""


def numbers_of(place: int) -> list[int]:
    """The numbers of the first cases that are drawn for one of the pairs."""
    return [3 * (at // 2) + at % 2 for at in (place, place + len(ORDER))]


def case(number: int, seed: int) -> Drawn:
    """A case, which depends on its number and the seed alone."""
    random = Random(seed * 1_000_003 + number)
    turn, third = divmod(number, 3)
    if third == 2 or (number >= FIXED and third == 1):
        names: tuple[str, ...] = ()
        made, reason = drawn(random, cases.group_of_settings(random))
    else:
        names = ORDER[(2 * turn + third) % len(ORDER)]
        made, reason = drawn(random, cases.pair_of_settings(random, names))
    turns, place = divmod(number + number // len(ORDER), len(VARIANTS))
    variant = VARIANTS[place]
    if made is not None and variant in ("cut", "rescaled", "hashed alike", "repaired"):
        made = cases.recut(random, made)
    ways = IN_TURN.get(variant, (variant,))
    variant = ways[turns % len(ways)]
    return Drawn(number, names, variant, made, reason)


def hold(numbers: Iterable[int], seed: int, *, stop_at: int = 10**9, small: bool = True) -> Held:
    """Draw these cases, and hold each against the product; those that differ are made small."""
    found = Held()
    for number in numbers:
        one = case(number, seed)
        if one.made is None:
            found.refused += 1
            continue
        wrong, made = differs(one.made, one.variant), one.made
        found.held += 1
        if wrong:
            if small:
                made, wrong = smaller(made, one.variant)
            found.differences.append(Difference(number, one.variant, made, wrong))
            if len(found.differences) >= stop_at:
                break
    return found


def drawn(random: Random, bolts: Iterator[Json]) -> tuple[Json | None, str]:
    """A scenario of the first bolt that ``build()`` accepts; else why it refuses the last one."""
    reason: str | None = ""
    for bolt in bolts:
        made = cases.without_steps(random, bolt)
        reason = refusal(made)
        if reason is None:
            named = {} if source_of(made) is None else {"watermark_partition": "p"}
            made["steps"] = list(cases.steps(random, bolt | named, made["streams"]))
            return cases.with_numbers(random, made), ""
    return None, reason or ""


def shown(title: str, found: list[str], case: Json) -> str:
    """A case as a file, with its differences as comments."""
    lines = [f"# {line}" for line in (title, *found)]
    return "\n".join([*lines, yaml.safe_dump(json.loads(json.dumps(case)), sort_keys=False, width=160)])


def refusal(made: Json) -> str | None:
    """Why the product refuses a bolt; None if it does not."""
    build = watched_topology if source_of(made) is None else topology_of
    return first_problem(lambda: build(read_scenario(made)))


def first_problem(build: Callable[[], object]) -> str | None:
    """The first problem that is told where something is built; None if there is none."""
    try:
        build()
    except (ConfigError, ScenarioError, TopologyError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[min(1, len(lines) - 1)] if "problem" in lines[0] else lines[0]
    return None


# ---- comparing


def differs(made: Json, variant: str) -> list[str]:
    """How the product's answer differs from the interpreter's."""
    scenario = read_scenario(made)
    try:
        if variant == "split" and may_be_split(made):
            return list(split(made))
        fits = variant in WAYS and (variant != "rescaled" or may_have_tasks(scenario))
        played = Played(scenario, topology_of(scenario), source=source_of(made))
        drove = driven(variant if fits else "as it is", played, Random(len(made["steps"])))
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:200]}"]
    bolt = run(made, drove.repairs, asking.known if drove.said else None)
    found = list(unlike_stop(bolt.stopped, drove.stopped))
    if found:
        return found
    mine = bolt.answer()
    found = [*compared(made, mine, drove.answer, variant), *beside(made, mine, drove)]
    for number, (state, said) in enumerate(zip(bolt.looks, drove.said, strict=True)):
        found += [f"asked after batch {number}: {each}" for each in asking.wrong(bolt, state, said["bolt"])]
    for number, (keys, of_keys) in enumerate(zip(drove.keys, bolt.of_keys, strict=True)):
        found += [f"after batch {number}: {each}" for each in asking.unlike_keys(keys["bolt"], of_keys)]
    return found


def split(made: Json) -> Iterator[str]:
    """The same, where batches end anywhere, which changes nothing."""
    calm = read_scenario({**made, "steps": [step for step in made["steps"] if "crash" not in step]})
    bolt = run(made, {})
    try:
        theirs = run_cut(calm, Random(len(made["steps"]))).to_json()
    except DataError as error:
        if bolt.stopped is None or not bolt.stopped.tells(str(error)):
            yield f"it stops by {error}, expected {bolt.stopped}"
        return
    if bolt.stopped is not None:
        yield f"it does not stop, expected {bolt.stopped}"
        return
    yield from compared(made, bolt.answer(), theirs, "split")


def unlike_stop(mine: Stop | None, theirs: tuple[int, str] | None) -> Iterator[str]:
    """How it differs that a rule has stopped the run: in which batch, and why."""
    if mine is None or theirs is None:
        if mine or theirs:
            yield f"it stops {theirs}, expected {mine}"
    elif mine.batch != theirs[0] or not mine.tells(theirs[1]):
        yield f"it stops in batch {theirs[0]} by {theirs[1]}, expected {mine} in batch {mine.batch}"


def beside(made: Json, mine: Json, driven: Driven) -> Iterator[str]:
    """What the bolt has emitted and not taken back, and which windows were open after each batch."""
    rules = rules_of(made)
    by_count = not rules.kinds and not (isinstance(rules.length, Duration) and isinstance(rules.slide, Duration))
    left, wanted = standing(driven.rows), mine["standing" if driven.retracts else "rows"]
    if by_count:  # their edges are in the windows already
        left, wanted = (
            [{name: row[name] for name in ("key", "events", "number")} for row in rows] for rows in (left, wanted)
        )
    if sorted(left, key=str) != sorted(wanted, key=str):
        extra = [row for row in left if row not in wanted]
        missing = [row for row in wanted if row not in left]
        yield f"rows that stand in the end: {extra} too many, {missing} missing"
    if by_count or rules.empty_windows_until is not None:
        return
    if len(driven.opened) != len(mine["opened"]):
        yield f"batches: {len(driven.opened)}, expected {len(mine['opened'])}"
        return
    for number, (opened, expected) in enumerate(zip(driven.opened, mine["opened"], strict=True)):
        found = opened["bolt"]
        if expected is not None and found != expected:
            extra = [row for row in found if row not in expected]
            missing = [row for row in expected if row not in found]
            yield f"open after batch {number}: {extra} too many, {missing} missing"
            return


def may_be_split(made: Json) -> bool:
    """Whether the answer does not depend on where batches end ("A watermark at events ...", decision 17)."""
    rules = rules_of(made)
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    if source_of(made) is not None:
        return False  # which partitions there are is said by the batches
    if rules.watermark_per_key and rules.arrival is not None and rules.arrival.late is not None:
        return False  # arrivals that go back
    return rules.panes is None and not idle and not rules.estimate_arrival and rules.reads_timestamps


def compared(made: Json, mine: Json, theirs: Json, variant: str = "as it is") -> Iterator[str]:
    """Windows, late events, accounts, what is pending, decisions, watermarks."""
    yield from windows(made, mine["windows"], theirs["windows"])
    order = sorted if variant == "rescaled" else list  # several tasks, each in its order
    if order(mine["late"]) != order(theirs["late"]):
        yield f"late: {theirs['late']}, expected {mine['late']}"
    yield from accounts(mine, theirs)
    per_key = "substreams" in made["bolt"]
    if theirs["events"]:
        yield from decisions(made, mine["events"], theirs["events"], per_key)
    if variant != "split" and not per_key and mine["watermarks"] != theirs["watermarks"]:
        yield f"watermarks: {theirs['watermarks']}, expected {mine['watermarks']}"
    if not per_key and mine["clocks"] != theirs["clocks"]:
        yield f"clocks: {theirs['clocks']}, expected {mine['clocks']}"


def accounts(mine: Json, theirs: Json) -> Iterator[str]:
    """What is pending, and the accounts; an event in a gap is told at once, or when time has passed it."""
    waits, told = Counter[str](mine["pending"]), Counter[str](theirs["pending"])
    in_gaps = (told - waits) & Counter(mine["gaps"])
    if waits != told - in_gaps:
        yield f"pending: {theirs['pending']}, expected {mine['pending']}"
    counts = Counter[str](theirs["counts"])
    counts.update(unwindowed=in_gaps.total(), pending=-in_gaps.total())
    wrong = [f"{name} {(counts[name], wanted)}" for name, wanted in mine["counts"].items() if wanted != counts[name]]
    if wrong:
        yield "counts (found, expected): " + ", ".join(wrong)


def windows(made: Json, mine: list[Json], theirs: list[Json]) -> Iterator[str]:
    """Those of each key and kind in their order."""
    rules = rules_of(made)
    grouped: dict[str, tuple[list[Json], list[Json]]] = {}
    for place, found in enumerate((mine, theirs)):
        for window in found:
            grouped.setdefault(f"{window.get('key')} {window.get('kind')}", ([], []))[place].append(window)
    for name, both in grouped.items():
        wanted, got = both if rules.panes is None else (sorted(each, key=str_of) for each in both)
        yield from unlike(f"window of {name}", wanted, got)


def str_of(window: Json) -> str:
    return f"{window['end']} {window.get('pane', {}).get('index')} {window['start']}"


def unlike(what: str, wanted: list[Json], got: list[Json]) -> Iterator[str]:
    """The first window that differs; ``new`` and ``expired`` are not known of all."""
    for one, other in zip(wanted, got, strict=False):
        unknown = {name for name in ("new", "expired") if other.get(name) is None}
        if any(value != other.get(name) for name, value in one.items() if name not in unknown):
            yield f"{what}: {brief(other)}, expected {brief(one)}"
            return
    if len(wanted) != len(got):
        more = wanted[len(got) :] or got[len(wanted) :]
        yield f"{what} {'missing' if len(wanted) > len(got) else 'too many'}: {brief(more[0])}"


def brief(window: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in window.items() if name != "bolt" and value is not None)


def decisions(made: Json, mine: list[Json], theirs: list[Json], per_key: bool) -> Iterator[str]:
    same = {"unwindowed": "accepted"}
    rules = rules_of(made)
    moved = rules.late_action.value == "adjust"
    at_ticks = rules.watermark_every is None
    if len(mine) != len(theirs):
        yield f"events: {len(theirs)}, expected {len(mine)}"
        return
    for one, other in zip(mine, theirs, strict=True):
        adjusted = one["action"].startswith("adjusted") and other["action"] in ("unwindowed", "accepted")
        for name in ("id", "action", "time", "watermark", "mark"):
            wanted, got = str(one[name]), str(other[name])
            if name == "action":
                wanted, got = same.get(wanted, wanted), same.get(got, got)
                if adjusted or (one["action"] == "unwindowed" and got.startswith("adjusted")):
                    continue
            if (name in ("watermark", "mark") and (per_key or at_ticks)) or (name == "mark" and moved):
                continue
            if name in ("watermark", "mark") and one["action"] == "invalid" and got == "None":
                continue
            if wanted != got:
                yield f"{one['id']}: {name} {got}, expected {wanted}"
                return


# ---- making small


def smaller(made: Json, variant: str) -> tuple[Json, list[str]]:
    """Without every step, setting and column that the difference does not need, as far as a minute of CPU goes."""
    found, again = differs(made, variant), partial(differs, variant=variant)
    return shrunk(made, found, without_one, refusal, again, seconds=60)


def without_one(made: Json) -> Iterator[Json]:
    steps, bolt = made["steps"], made["bolt"]
    for size in (8, 4, 2, 1):
        for place in range(len(steps) - size, -1, -1):
            yield {**made, "steps": steps[:place] + steps[place + size :]}
    for name in bolt:
        yield {**made, "bolt": {key: value for key, value in bolt.items() if key != name}}
    for name in ("partitions", "meta"):
        if name in made:
            yield {key: value for key, value in made.items() if key != name}
    for place, step in enumerate(steps):
        for name in ("clock", "arrival", "stream"):
            if name in step and "event" in step:
                yield {
                    **made,
                    "steps": [*steps[:place], {k: v for k, v in step.items() if k != name}, *steps[place + 1 :]],
                }
    if len(made["streams"]) > 1 and all(step.get("stream") in (None, "s1") for step in steps):
        yield {**made, "streams": ["s1"]}
