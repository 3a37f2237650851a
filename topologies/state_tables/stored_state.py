"""The state of a windowed bolt as tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.file_systems.storage_errors import as_storage_error
from topologies.io.formats import FormatName, file_format, write_table
from topologies.io.formats.write_table import json_rows
from topologies.io.paths import locate
from windowing.calls.checked import checked
from windowing.data.reprs import one_line
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean
from windowing.time.timestamps import show

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """What a checkpoint holds of a windowed bolt after a batch: ``state.read("ck/", "revenue")["events"]``."""

    checkpoint: str
    bolt: str
    batch: str | None
    """``7``, or ``7-close`` for the closing after batch 7; None where no batch has been committed."""
    clock: int | None
    """That of the batch, in microseconds."""
    tables: Mapping[str, pa.Table]
    """``accounts``, ``tasks``, ``watermarks``, ``events``, ``windows`` and ``keys``; ``policies`` where policies of
    one's own decide; ``state`` and ``state.NAME`` of a stateful bolt; ``retractable.STREAM`` where windows may take
    back what they emitted."""

    def __getitem__(self, name: str) -> pa.Table:
        """A table by its name. ConfigError where there is none."""
        if name not in self.tables:
            raise ConfigError(
                f"there is no table {name!r}{did_you_mean(str(name), self.tables)}",
                why=f"of bolt {self.bolt!r} the checkpoint has {', '.join(self.tables)}",
                do="name one of these",
            )
        return self.tables[name]

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {table.num_rows}" for name, table in self.tables.items())
        return one_line(f"<StoredState of {self.bolt!r} after batch {self.batch}: {rows}>")

    @checked
    def only(self, table: str) -> StoredState:
        """The same with one of its tables. ConfigError where there is none of this name."""
        return replace(self, tables={table: self[table]})

    @checked
    def to_pandas(self, table: str = "events") -> pd.DataFrame:
        """A table as a DataFrame. ConfigError where there is none of this name."""
        frame: pd.DataFrame = self[table].to_pandas()
        return frame

    @checked
    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON: rows as objects, times in ISO 8601."""
        return {
            "checkpoint": self.checkpoint,
            "bolt": self.bolt,
            "step": self.batch,
            "clock": None if self.clock is None else show(self.clock),
            "tables": {name: json_rows(table) for name, table in self.tables.items()},
        }

    @checked
    def write(self, folder: str | os.PathLike[str], format: FormatName = "parquet") -> list[str]:
        """Write each table as a file of a folder, such as ``events.parquet``; files that are there are replaced.

        The folder may be a URI. Returns the paths. ConfigError for an unknown format, SchemaError where a format cannot
        hold a column.
        """
        chosen = file_format(format, "writing")
        filesystem, inside, _ = locate(os.fspath(folder))
        with as_storage_error(inside, "made"):
            if isinstance(filesystem, pafs.LocalFileSystem):
                os.makedirs(inside, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            path = f"{inside}/{name}.{chosen.name}"
            with as_storage_error(path, "written"):
                write_table(filesystem, path, table, chosen)
            paths.append(path)
        return paths
