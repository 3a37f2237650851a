"""What runs first in a worker of a Connect server: it finds the code of the run, and hands over to it.

The functions are sent by value, and name nothing of windbolt: that cannot be imported there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

Arrived = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Function for ``mapInArrow`` over ``range(n)``: each row has the number of a hand in the column ``id``."""


def rows(folders: Sequence[str], work: bytes, hands: Sequence[bytes]) -> Arrived:
    """The record batches that a function makes of each hand. ``work`` is the pickle of the function; ``folders`` are
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
                yield from function(hands[number])

    return run


def packed(names: Sequence[str]) -> Arrived:
    """For ``mapInArrow`` over rows: Arrow's own bytes of each record batch, with these names of its columns, in the
    column ``rows``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            named = pa.RecordBatch.from_arrays(batch.columns, names=list(names))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, named.schema) as writer:
                writer.write_batch(named)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["rows"])

    return run
