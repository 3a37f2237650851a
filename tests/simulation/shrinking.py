"""Makes a failing case smaller: fewer faults, portions, files, events and bolts, as long as it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests.simulation.case import Case
from tests.simulation.playing import Played, play
from tests.simulation.world.plan import BoltPlan, WorldPlan
from tests.simulation.world.portions import Portion
from tests.simulation.world.world import CannotBeBuilt

_MOST = 400
"""So many smaller cases are tried."""

T = TypeVar("T")


def shrunk(played: Played) -> Played:
    """The same failure, or one that is left of it, with as little as possible."""
    tried = 0
    while True:
        for case in _smaller(played.case):
            tried += 1
            if tried > _MOST:
                return played
            fewer = _played(case)
            if fewer is not None and fewer.problems:
                played = fewer
                break
        else:
            return played


def keep(played: Played, folder: Path) -> str:
    """Write the case to a file; what went wrong, and how to see it again."""
    path = folder / f"seed-{played.case.seed}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(str(played.case.titled(played.problems[0].partition("\n")[0][:200])), encoding="utf-8")
    return f"{played}\nto see it again: python -m tests.simulation --case {path}"


def _played(case: Case) -> Played | None:
    """None where what is left cannot be built, or no batch of it is committed, so that there is nothing to judge."""
    try:
        return play(case)
    except (CannotBeBuilt, FileNotFoundError):
        return None


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less, those with much less first."""
    for faults in _without_some(case.faults):
        yield replace(case, faults=tuple(faults))
    for world in _smaller_worlds(case.world):
        yield replace(case, world=world)


def _smaller_worlds(world: WorldPlan) -> Iterator[WorldPlan]:
    for bolts in _without_some(world.bolts):
        if bolts:
            yield replace(world, bolts=tuple(bolts))
    for portions in _without_some(world.portions[:-1]):  # in the last one nothing happens any more
        yield replace(world, portions=(*portions, world.portions[-1]))
    if world.errors is not None:
        yield replace(world, errors=None)
    if world.doubled and all("doubled" not in bolt.inputs for bolt in world.bolts):
        yield replace(world, doubled=0)
    read = {spout for bolt in world.bolts for spout in bolt.inputs}
    if len(world.spouts) > 1 and world.spouts[1] not in read:
        kept = [_of_spouts(portion, world.spouts[:1]) for portion in world.portions]
        yield replace(world, spouts=world.spouts[:1], portions=tuple(kept))
    for at, bolt in enumerate(world.bolts):
        for less in _plainer_bolts(bolt):
            yield replace(world, bolts=(*world.bolts[:at], less, *world.bolts[at + 1 :]))
    for at, portion in enumerate(world.portions[:-1]):
        for smaller in _smaller_portions(portion):
            yield replace(world, portions=(*world.portions[:at], smaller, *world.portions[at + 1 :]))


def _plainer_bolts(bolt: BoltPlan) -> Iterator[BoltPlan]:
    if bolt.then is not None:
        yield replace(bolt, then=None)
    if bolt.called and bolt.sinks:
        yield replace(bolt, called=False)
    for sinks in _without_some(tuple((bolt.sinks or {}).items())):
        if not isinstance(bolt.rules, dict):
            yield replace(bolt, sinks=dict(sinks))
    if bolt.tasks > 1:
        yield replace(bolt, tasks=1)


def _smaller_portions(portion: Portion) -> Iterator[Portion]:
    for files in _without_some(tuple(portion.files.items())):
        yield replace(portion, files=dict(files))
    for name, lines in portion.files.items():
        for fewer in _without_some(lines):
            yield replace(portion, files={**portion.files, name: list(fewer)})


def _of_spouts(portion: Portion, spouts: Sequence[str]) -> Portion:
    return replace(
        portion, files={name: lines for name, lines in portion.files.items() if name.split("/")[0] in spouts}
    )


def _without_some(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Without all, without each half, each quarter, and so on down to without each."""
    size = len(items)
    while size:
        for at in range(0, len(items), size):
            yield [*items[:at], *items[at + size :]]
        size = 0 if size == 1 else (size + 1) // 2
