"""What a seed has drawn: a topology and its input as plain values, which can be made smaller, written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from tests.simulation.name_changes import Order
from tests.simulation.world.portions import Portion

Format = Literal["jsonl", "csv", "parquet", "arrow"]
Plain = dict[str, Any]


@dataclass(frozen=True)
class BoltPlan:
    """A bolt, and what reads it."""

    name: str
    rules: str | Plain
    """The name of its windows and rules of time, or those themselves, where an oracle knows them."""
    does: str
    """What is done with the events of a window; "" where the rules say it."""
    draws: int
    """The seed of lengths, lags and other numbers of them."""
    made: str
    """What was made of all that, in words."""
    inputs: tuple[str, ...]
    meeting: str = ""
    """How the watermarks of two inputs are combined."""
    tasks: int = 1
    keyed: bool = False
    """Whether events go to tasks by key; else all to one."""
    sinks: Mapping[str, Format] | None = None
    """By stream, the format of its files."""
    called: bool = False
    """Whether a function is called with what it emits."""
    then: str | int | None = None
    """The length of the windows of a second bolt that reads it; None for none."""
    then_format: Format = "jsonl"

    @classmethod
    def of(cls, values: Plain) -> Self:
        """From what ``plain`` has made of one."""
        return cls(**{**values, "inputs": tuple(values["inputs"])})


@dataclass(frozen=True)
class WorldPlan:
    """A topology and its input."""

    bolts: tuple[BoltPlan, ...]
    portions: tuple[Portion, ...]
    spouts: tuple[str, ...] = ("in",)
    keep: int = 3
    """So many batches can be gone back to."""
    per_batch: int = 1
    """Files, or records of Kafka, in a batch."""
    doubled: int = 0
    """The tasks of a plain bolt between the first spout and some bolts; 0 where there is none."""
    errors: Format | None = None
    """The format of the files for input that cannot be read; None where nobody asks for it."""
    kafka: bool = False
    """Whether the spout is a topic of the broker, whose partitions are named like files: ``in/0``."""
    store: bool = False
    """Whether the checkpoint and the sinks are in an object store."""
    step: Plain | None = None
    """The configuration of an aggregation step, which is then all there is."""
    names: Order = "kept"
    """Whether the file system keeps the order of changes of names."""

    @classmethod
    def of(cls, values: Plain) -> Self:
        """From what ``plain`` has made of one."""
        bolts = tuple(BoltPlan.of(each) for each in values["bolts"])
        portions = tuple(Portion.of(each) for each in values["portions"])
        spouts = tuple(values.get("spouts", cls.spouts))
        return cls(**{**values, "bolts": bolts, "portions": portions, "spouts": spouts})


def plain(value: Any) -> Any:
    """A plan as plain values; what has its default is left out."""
    if hasattr(value, "__dataclass_fields__"):
        found = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
        return {name: plain(given) for name, (given, default) in found.items() if given != default}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in value.items()} if isinstance(value, Mapping) else value
