"""A spout in a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.io.defaults import Defaults
from windowing.data.returned_rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.io.spouts import AnySpout


@dataclass(frozen=True)
class SpoutNode:
    """A spout under its name."""

    name: str
    spout: AnySpout
    outputs: Mapping[str, pa.Schema]
    needed: frozenset[str] | None = None
    """Those of its columns that are asked for; None: all."""
    defaults: Defaults = field(default_factory=Defaults)
    """What its rows have in columns where they have no value."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that its rows have in a run."""
        declared = self.outputs[DEFAULT_STREAM]
        needed = self.needed
        return declared if needed is None else pa.schema([field for field in declared if field.name in needed])
