"""Keys that differ and share a hash, as two of a billion may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from topologies.engine import ingest
from topologies.graph import groupings
from topologies.graph.groupings import hash_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


@contextmanager
def crowded(hashes: int) -> Iterator[None]:
    """All keys share so few hashes, in whatever way these are asked for."""

    def few(table: pa.Table, fields: Sequence[str]) -> NDArray[np.uint64]:
        return hash_rows(table, fields) % np.uint64(hashes)

    with pytest.MonkeyPatch.context() as patch:
        for module in (ingest, groupings):
            patch.setattr(module, "hash_rows", few)
        patch.setattr(groupings, "_hashes_identify", lambda column: False)
        yield
