"""References to sections as columns: where a batch has tasks by the hundred and pieces of input by the hundred, there
is one for each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manager.storage.segments.ref import Ref
from policies.marks import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIELDS = ("offset", "length", "rows", "start", "earliest_live", "latest_live", "level", "checksum")
_AT = {name: column for column, name in enumerate(_FIELDS)}


@dataclass(frozen=True)
class RefColumns:
    """References without flags, in order, as a ``Refs`` has them; what is asked of them together costs no object each.

    Not all have live rows: where they have none, the times are ``NONE``.
    """

    names: Sequence[str]
    """The names of segments, each once; some may belong to none of these references."""
    segments: NDArray[np.int64]
    """Per reference, the index of its segment among the names."""
    values: NDArray[np.int64]
    """Shape (references, 8 + inputs): the fields of a ``Ref``, and of each input the number of rows still needed."""

    @staticmethod
    def of(refs: Sequence[Ref]) -> RefColumns:
        """The columns of some references, of which each counts its rows by input, and none has flags."""
        assert not any(ref.flags for ref in refs)
        places = {name: place for place, name in enumerate(dict.fromkeys(ref.segment for ref in refs))}
        values = [
            [
                ref.offset,
                ref.length,
                ref.rows,
                ref.start,
                _time(ref.earliest_live),
                _time(ref.latest_live),
                ref.level,
                ref.checksum,
                *ref.by_stream,
            ]
            for ref in refs
        ]
        segments = np.array([places[ref.segment] for ref in refs], np.int64)
        return RefColumns(tuple(places), segments, np.array(values, np.int64))

    @staticmethod
    def concat(parts: Sequence[RefColumns]) -> RefColumns:
        """All references, one part after another."""
        names = [name for part in parts for name in part.names]
        firsts = np.cumsum([0, *(len(part.names) for part in parts[:-1])])
        segments = [part.segments + first for part, first in zip(parts, firsts.tolist(), strict=True)]
        return RefColumns(tuple(names), np.concatenate(segments), np.concatenate([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Ref]:
        for segment, values in zip(self.segments.tolist(), self.values.tolist(), strict=True):
            offset, length, rows, start, earliest, latest, level, checksum, *by_stream = values
            yield Ref(
                self.names[segment],
                offset,
                length,
                rows,
                start=start,
                earliest_live=None if earliest == NONE else earliest,
                latest_live=None if latest == NONE else latest,
                by_stream=tuple(by_stream),
                level=level,
                checksum=checksum,
            )

    def take(self, which: NDArray[np.int64] | slice) -> RefColumns:
        """Some of the references, by their places."""
        return RefColumns(self.names, self.segments[which], self.values[which])

    @property
    def extents(self) -> NDArray[np.int64]:
        """Shape (references, 4): the offset, the length, the number of rows and the checksum of each section."""
        return self.values[:, [_AT[name] for name in ("offset", "length", "rows", "checksum")]]

    def moved(self, names: Sequence[str], segments: NDArray[np.int64], offsets: NDArray[np.int64]) -> RefColumns:
        """The same rows in a copy of their sections: in ``segments``, by their places among the names, at ``offsets``
        in bytes."""
        used, numbers = np.unique(segments, return_inverse=True)
        values = self.values.copy()
        values[:, _AT["offset"]] = offsets
        return RefColumns([names[place] for place in used.tolist()], numbers, values)

    @property
    def levels(self) -> NDArray[np.int64]:
        """How often each has been compacted."""
        return self._column("level")

    @property
    def needed(self) -> int:
        """Number of rows still needed, of all."""
        return int((self._column("rows") - self._column("start")).sum())

    def needed_up_to(self, time: int) -> int:
        """Number of rows still needed of those references that may have a live row at this time or before it."""
        earliest = self._column("earliest_live")
        due = (earliest != NONE) & (earliest <= time)
        return int((self._column("rows") - self._column("start"))[due].sum())

    @property
    def by_stream(self) -> Sequence[int]:
        """Per input, the number of rows still needed, of all."""
        return self.values[:, len(_FIELDS) :].sum(axis=0).tolist()  # type: ignore[no-any-return]

    @property
    def earliest_live(self) -> int | None:
        """A lower bound on the times of all live rows, in microseconds; None where none is live."""
        live = self._times("earliest_live")
        return int(live.min()) if len(live) else None

    @property
    def latest_live(self) -> int | None:
        """The greatest time of all live rows, likewise."""
        live = self._times("latest_live")
        return int(live.max()) if len(live) else None

    def segment_names(self) -> Iterable[str]:
        """The names of the segments in which these references are, each once."""
        return (self.names[place] for place in np.unique(self.segments).tolist())

    def _times(self, name: str) -> NDArray[np.int64]:
        times = self._column(name)
        live: NDArray[np.int64] = times[times != NONE]
        return live

    def _column(self, name: str) -> NDArray[np.int64]:
        return self.values[:, _AT[name]]


def _time(time: int | None) -> int:
    return NONE if time is None else time
