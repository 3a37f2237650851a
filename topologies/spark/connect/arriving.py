"""The functions that run first in a worker of a Connect server: they find the code of the run, and call it.

The functions are sent by value, and name nothing of windbolt: that cannot be imported there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

Arrived = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Function for ``mapInArrow`` over ``range(n)``: each row has the number of a share in the column ``id``."""


def rows(folders: Sequence[str], work: bytes, shares: Sequence[bytes]) -> Arrived:
    """The record batches that a function makes of each share. ``work`` is the pickle of the function; ``folders`` are
    those of archives that were sent."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import pickle
        import sys

        from pyspark import SparkFiles

        places = [os.path.join(SparkFiles.getRootDirectory(), folder) for folder in folders]
        sys.path[:0] = [place for place in places if place not in sys.path]
        function = pickle.loads(work)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from function(shares[number])

    return run
