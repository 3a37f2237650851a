"""A windowed bolt as the checks see it, and how a mistake in it is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.compose.effects import Situation
from topologies.compose.missing_columns import how_to_have
from topologies.graph.streams import Input, stream_label
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean_column

if TYPE_CHECKING:
    from windowing.settings import WindowSettings


@dataclass(frozen=True, kw_only=True)
class CheckedBolt:
    """What is known of a windowed bolt when its settings are checked."""

    name: str
    settings: WindowSettings
    inputs: Sequence[tuple[Input, pa.Schema]] = ()
    """The streams that it reads, with their columns."""
    brings: Sequence[bool] = ()
    """Per input: whether it has the watermark of a windowed bolt; the others bring events from outside."""
    outputs: Sequence[pa.Schema] = ()
    """The columns of what it emits."""
    parallelism: int = 1
    event_time: bool
    groups_by: tuple[str, ...] | None = None
    """The columns by which it groups its events, if it does."""
    rows_are_of_events: bool = False
    """Whether it emits nothing for a window without events."""
    takes_retractions: bool = True
    """Whether it heeds that a bolt before it has taken rows back."""
    asks_for_expired: bool = False
    """Whether it was told, or its code was seen, to ask its windows what has expired."""
    partitioned: bool = False
    """Whether a source behind its inputs has partitions of its own."""
    parallel_windows: bool = False
    """Whether several windows of a task may be fired at the same time."""
    stateful: bool = False
    """Whether a window gets what the ones before it have left behind."""
    joined: Mapping[str, tuple[str, ...]] | None = None
    """Of a join: the key columns of each input, by its name."""

    @property
    def temporal(self) -> bool:
        """Whether the bolt is a temporal join, whose key is that of the join."""
        return self.joined is not None and any(kind.of_temporal_join for kind in self.settings.kinds)

    @property
    def situation(self) -> Situation:
        """What decides which of its settings change anything."""
        from_outside = not self.brings or not all(self.brings)
        return Situation(self.settings, self.event_time, len(self.inputs), self.partitioned, from_outside)

    @property
    def outside(self) -> list[tuple[Input, pa.Schema]]:
        """The streams of ``inputs`` that bring events from outside."""
        brings = self.brings or [False] * len(self.inputs)
        return [each for each, inherits in zip(self.inputs, brings, strict=True) if not inherits]

    @property
    def labels(self) -> list[str]:
        """The names of the streams that it reads."""
        return [stream_label(each.stream) for each, _ in self.inputs]

    def fault(self, what: str, why: str, do: str) -> ConfigError:
        """A mistake of this bolt's."""
        return ConfigError(f"bolt {self.name!r}: {what}", why=why, do=do)

    def exclusions(self, has: str, others: Mapping[str, bool], why: str) -> Iterator[ConfigError]:
        """A mistake for each of the other settings that is given, by its call, since the bolt has this one."""
        for call, given in others.items():
            if given:
                yield self.fault(f"has {has}, and {call}", why, "leave one of the two out")

    def column(
        self,
        call: str,
        field: str,
        fits: Callable[[pa.DataType], bool] = lambda kind: True,
        wanted: str = "",
        *,
        everywhere: bool = False,
        inputs: Sequence[tuple[Input, pa.Schema]] | None = None,
    ) -> Iterator[ConfigError]:
        """The column that a call names is in an input, or ``everywhere``, and its type fits.

        ``inputs``: those that the call is about, if not all.
        """
        found = False
        for each, schema in self.inputs if inputs is None else inputs:
            label = stream_label(each.stream)
            if field in schema.names:
                found = True
                kind = schema.field(field).type
                if not fits(kind):
                    yield self.fault(
                        f"{call} names {field!r}, which is {kind} in {label!r}",
                        f"it must be {wanted}",
                        "name another column",
                    )
            elif everywhere:
                yield self.fault(
                    f"{call} names {field!r}{did_you_mean_column(field, schema.names)}",
                    f"{label!r} has {', '.join(schema.names)}",
                    how_to_have(field, "name columns of every input"),
                )
        if not found and not everywhere:
            columns = "; ".join(f"{stream_label(each.stream)!r} has {', '.join(s.names)}" for each, s in self.inputs)
            meant = did_you_mean_column(field, [name for _, schema in self.inputs for name in schema.names])
            yield self.fault(f"{call} names {field!r}{meant}", columns, how_to_have(field, "name a column of an input"))
