"""What runs first in a worker of a Connect server: it finds the code of the run, and hands over to it.

The functions are sent by value, and name nothing of windbolt: that cannot be imported there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

Arrived = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Function for ``mapInArrow`` over ``range(n)``: each row has the number of a hand in the column ``id``."""


def results(folders: Sequence[str], work: bytes, hands: Sequence[bytes]) -> Arrived:
    """A row of bytes for each hand, in the column ``output``. ``work`` is the pickle of a function that makes them of a
    hand; ``folders`` are those of archives that were sent."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import pickle
        import sys

        import pyarrow as pa
        from pyspark import SparkFiles

        places = [os.path.join(SparkFiles.getRootDirectory(), folder) for folder in folders]
        sys.path[:0] = [place for place in places if place not in sys.path]
        function = pickle.loads(work)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                output = pa.array([function(hands[number])], pa.binary())
                yield pa.RecordBatch.from_arrays([output], ["output"])

    return run


def rows(folders: Sequence[str], work: bytes, hands: Sequence[bytes]) -> Arrived:
    """The rows that ``work`` makes of each hand, as record batches; the rest is as for ``results``."""

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
