"""What an executor looks at once windbolt can be imported there: the topology, the user's modules, the folders."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from topologies.spark.cluster.probes import ProbedPlace
from topologies.topology import Topology


@dataclass(frozen=True)
class Told:
    """What the driver tells an executor."""

    unpack: Callable[[], Topology]
    """Gives the topology, as a task gets it."""
    modules: tuple[str, ...]
    """Installed packages that the user's modules import at their top."""
    places: tuple[ProbedPlace, ...]
    probe: str
    """What is written in these places, new for every run."""


def look(told: Told, task: int) -> dict[str, Any]:
    """An executor's answer: ``modules`` that it lacks, and by number of the place what it does not see there."""
    lacking = [name for name in told.modules if importlib.util.find_spec(name) is None]
    if not lacking:
        told.unpack()
    return {"task": task, "lacking": lacking, "unseen": _unseen(told.places, told.probe, task)}


def _unseen(places: Sequence[ProbedPlace], probe: str, task: int) -> dict[int, str]:
    looked = {number: place.look(probe, task) for number, place in enumerate(places)}
    return {number: said for number, said in looked.items() if said is not None}
