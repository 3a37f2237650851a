"""Quantiles of any number of values in little space, by the t-digests of Apache DataSketches.

Of the mergeable sketches that library offers the t-digest is the one that involves no chance: a batch that runs again
after a crash gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Cells, Numeric, nulled
from windowing.aggregates.groups import Groups
from windowing.errors import ConfigError, EnvironmentMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PACKAGE = "datasketches"
_INSTALL = "run: pip install 'windbolt[sketches]', on the workers too"
_LEAST, _MOST = 10, 10_000


@dataclass(frozen=True)
class Digest(Accumulator):
    """A t-digest of the finite values; infinite ones and NaN, which it cannot hold, are counted."""

    field: str
    size: int

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"digest": pa.binary(), "below": pa.int64(), "above": pa.int64(), "nans": pa.int64()}

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        values = values.astype(np.float64, copy=False)
        known = np.ones(len(values), np.bool_) if valid is None else valid
        finite = np.isfinite(values) & known
        rows, edges = groups.runs(finite)
        ordered = values[rows]
        digests = [self._of(ordered[low:high]) for low, high in pairwise(edges.tolist())]
        others = [values == -np.inf, values == np.inf, np.isnan(values)]
        return [pa.array(digests, pa.binary()), *(groups.sums(other & known) for other in others)]

    def merge(self, state: State, groups: Groups) -> State:
        digests, *others = state
        rows, edges = groups.runs(digests.is_valid().to_numpy(zero_copy_only=False))
        ordered = digests.take(pa.array(rows)).to_pylist()
        merged = [self._joined(ordered[low:high]) for low, high in pairwise(edges.tolist())]
        return [pa.array(merged, pa.binary()), *(groups.sums(other) for other in others)]

    def loaded(self, columns: list[pa.Array]) -> State:
        digests, *others = columns
        return [digests, *(other.to_numpy() for other in others)]

    def _of(self, values: NDArray[np.float64]) -> bytes | None:
        if not len(values):
            return None
        digest = _digests()(self.size)
        digest.update(values)
        return bytes(digest.serialize())

    def _joined(self, digests: list[bytes]) -> bytes | None:
        if len(digests) < 2:
            return digests[0] if digests else None
        whole = _digests()(self.size)
        for digest in digests:
            whole.merge(whole.deserialize(digest))
        return bytes(whole.serialize())


@dataclass(frozen=True)
class Quantile(Numeric):
    """The value that a share ``q`` of the values that are not null lies below; NaN if one is, null without any."""

    q: float = 0.5
    size: int = 500

    def __post_init__(self) -> None:
        if not (isinstance(self.q, int | float) and 0 <= self.q <= 1):
            raise ConfigError(f"{self}", why="a quantile is from 0 to 1", do="give q=0.95 for the 95th percentile")
        if not (isinstance(self.size, int) and _LEAST <= self.size <= _MOST):
            raise ConfigError(f"{self} size={self.size!r}", why=f"sizes go from {_LEAST} to {_MOST}", do="leave it out")

    def refusal(self) -> tuple[str, str] | None:
        if find_spec(_PACKAGE) is None:
            return f"the package {_PACKAGE} is not installed", _INSTALL
        return super().refusal()

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Digest(self._field, self.size),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((digests, below, above, nans),) = states
        columns = digests.to_pylist(), below.tolist(), above.tolist()
        found = np.array([self._value(*each) for each in zip(*columns, strict=True)], np.float64)
        missing = ~digests.is_valid().to_numpy(zero_copy_only=False) & (below + above + nans == 0)
        return nulled(np.where(nans > 0, np.nan, found), missing, self.result)

    def _value(self, digest: bytes | None, below: int, above: int) -> float:
        if digest is None:
            return -np.inf if below and self.q * (below + above) < below else np.inf
        finite = _digests().deserialize(digest)
        if not below + above:
            return float(finite.get_quantile(self.q))
        weight = finite.get_total_weight()
        rank = self.q * (below + weight + above) - below
        if rank < 0:
            return -np.inf
        return float(finite.get_quantile(rank / weight)) if rank < weight or not above else np.inf

    def __str__(self) -> str:
        return f"quantile({self.field!r}, {self.q!r})"


def _digests() -> Any:
    try:
        from datasketches import tdigest_double
    except ImportError as error:
        raise EnvironmentMissing(f"the package {_PACKAGE} is missing", why="quantiles need it", do=_INSTALL) from error
    return tdigest_double
