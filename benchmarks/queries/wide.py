"""Wide rows: the columns of the other events, an id, and some texts that few queries ask for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads import SEED, Columns, Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "event_time timestamp, id long, key int, value double, stream string, channel string, url string, extra string"
)
CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
URL, EXTRA = 15, 100
"""Letters of a URL's own, and of the text that nobody asks for."""


@dataclass(frozen=True)
class WideEvents(Events):
    """Events with eight columns, three of them texts."""

    @cached_property
    def columns(self) -> Columns:
        """The columns in order of arrival; ``event_time`` in milliseconds."""
        random = np.random.default_rng(SEED + 1)
        channel = np.array(CHANNELS, object)[random.integers(0, len(CHANNELS), self.count)]
        own = self._words(random, URL)
        url = pc.binary_join_element_wise(pa.scalar("https://www.example.com/"), own, pa.scalar("/item?query=1"), "")
        texts = {"channel": channel, "url": url.to_numpy(False), "extra": self._words(random, EXTRA).to_numpy(False)}
        return {**super().columns, "id": np.arange(self.count), **texts}

    def _words(self, random: np.random.Generator, letters: int) -> pa.StringArray:
        written = random.integers(ord("a"), ord("z") + 1, (self.count, letters), dtype=np.uint8)
        offsets = np.arange(self.count + 1, dtype=np.int32) * letters
        return pa.StringArray.from_buffers(self.count, pa.py_buffer(offsets), pa.py_buffer(written))

    @property
    def name(self) -> str:
        return f"wide-{super().name}"


@dataclass(frozen=True)
class PairedEvents(WideEvents):
    """The same, the files of the two streams in folders of their own; each has half of the rows."""

    def places(self, table: pa.Table) -> dict[str, pa.Table]:
        """Rows by the folder that they go to."""
        return {side: table.filter(pc.equal(table.column("stream"), side)) for side in ("a", "b")}

    @property
    def name(self) -> str:
        return f"paired-{super().name}"


def read_wide(spark: SparkSession, folder: str | Path, batch_files: int) -> DataFrame:
    """The files as a stream."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", batch_files).parquet(str(folder))
