"""A spout that a user writes, as part of a topology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from topologies.io.file_spout import FoundFile, KeptRows
from windowing.errors import ConfigError
from windowing.schema import DEFAULT_STREAM, parse_schema
from windowing.spout import Spout


@dataclass(frozen=True)
class PulledSpout:
    """A user's spout, as part of a topology."""

    spout: Spout

    def __repr__(self) -> str:
        return repr(self.spout)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Returns the values for columns in which its rows have none."""
        return self.spout.defaults

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the declared columns. ConfigError where there are none, or the limit is invalid."""
        kind = type(self.spout).__name__
        if getattr(self.spout, "schema", None) is None:
            raise ConfigError(
                f"{kind} declares no columns",
                why="the columns of a spout are declared",
                do='write schema = "ts timestamp, ..." in the class',
            )
        limit = self.spout.rows_per_batch
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigError(
                f"{kind} has rows_per_batch = {limit!r}", why="a batch takes at least one row", do="give a whole number"
            )
        return {DEFAULT_STREAM: parse_schema(self.spout.schema)}


@dataclass(frozen=True, repr=False)
class PulledRows(KeptRows):
    """The rows of such a spout in files of a checkpoint; each is a batch."""

    place: str = field(default="", kw_only=True)
    """The folder of these files; ``paths`` has it as a pattern."""

    def now(self, path: str) -> str:
        """Returns where a file is, even if the checkpoint has been moved since a batch was planned with the file."""
        return f"{self.place}/{path.rsplit('/', 1)[1]}"

    def cut(self, files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
        """Yields one batch for each file; the next one is pulled when it is asked for."""
        for file in files:
            yield [file]
