"""A world with its faults, as a file that people read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.simulation.faults import Fault, schedule
from tests.simulation.world.drawing import draw
from tests.simulation.world.plan import WorldPlan, plain

CASES = Path(__file__).parent / "cases"
"""Cases that failed once; the tests play them."""


@dataclass(frozen=True)
class Case:
    """What is played: a world, its faults, and the seed of all other chances."""

    seed: int
    world: WorldPlan
    faults: tuple[Fault, ...]
    title: str = ""

    @classmethod
    def of(cls, seed: int) -> Iterator[Case]:
        """Those of a seed, until one is taken: not all can be built."""
        faults = tuple(schedule(seed))
        return (cls(seed, plan, faults) for plan in draw(seed))

    @classmethod
    def read(cls, path: Path) -> Case:
        """That of a file."""
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        faults = tuple(Fault(**each) for each in values["faults"])
        return cls(values["seed"], WorldPlan.of(values["world"]), faults, values.get("title", ""))

    def titled(self, title: str) -> Case:
        """The same, with a sentence on what it shows."""
        return replace(self, title=title)

    def __str__(self) -> str:
        values: dict[str, Any] = {"title": self.title, **plain(self)}
        return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Short lists and mappings on a line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Lines of JSON as they are."""
    style = "'" if value.startswith("{") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
