"""The first rows of a spout, without a run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from topologies.graph.nodes.spout import SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile, chunks_of
from topologies.io.formats import FileSplit
from topologies.io.formats.access import reached
from topologies.io.paths import locate_file
from topologies.io.pulled import PulledSpout
from topologies.io.spouts import MemorySpout
from topologies.sources.pulling import Puller
from windowing.data.returned_rows import DEFAULT_STREAM

MOST_ROWS, MOST_FILES = 1_000, 20
"""Maximum number of rows that are looked at, and of files that are opened for them."""


@dataclass(frozen=True)
class FirstRows:
    """Rows at the beginning of a spout's input."""

    rows: pa.Table
    """The good ones, with the columns that are read from files."""
    reasons: tuple[str, ...] = ()
    """Why others cannot be read, one text for each."""

    @property
    def number(self) -> int:
        """How many rows were looked at, good and bad."""
        return int(self.rows.num_rows) + len(self.reasons)


def first_rows_of_files(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> FirstRows:
    """Some rows of the first files, in the order in which a run reads them.

    Raises DataError for a file that is not what the spout says, UnreachableError for one that cannot be reached.
    """
    schema, defaults = spout.row_schema(node.outputs[DEFAULT_STREAM]), node.defaults
    rows, reasons = schema.empty_table(), list[str]()
    for file in files[:MOST_FILES]:
        with reached(file.path):
            filesystem, path = locate_file(file.path)
        for table, _, bad in chunks_of(spout, filesystem, FileSplit(path), schema, optional=defaults.columns.keys()):
            rows = pa.concat_tables([rows, defaults.filled(table.slice(0, MOST_ROWS))])
            reasons += bad.rows.column("reason").to_pylist()
            if len(rows) + len(reasons) >= MOST_ROWS:
                return FirstRows(rows.slice(0, max(MOST_ROWS - len(reasons), 1)), tuple(reasons[:MOST_ROWS]))
    return FirstRows(rows, tuple(reasons))


def first_rows_of_memory(node: SpoutNode, spout: MemorySpout) -> FirstRows:
    """Some rows of batches that are given in Python; raises SchemaError where they are not what is declared."""
    tables = [spout.outputs()[DEFAULT_STREAM].empty_table(), *spout.tables()]
    return FirstRows(node.defaults.filled(pa.concat_tables(tables).slice(0, MOST_ROWS)))


def first_rows_of_users_spout(node: SpoutNode, spout: PulledSpout) -> FirstRows:
    """The rows that a user's spout returns at the beginning; it is opened, and closed again, and nothing is
    acknowledged. Raises SpoutError for what it raises."""
    with closing(Puller(node.name, spout)) as puller:
        pulled = puller.pull(MOST_ROWS)
    rows = node.outputs[DEFAULT_STREAM].empty_table() if pulled is None else pulled.rows
    return FirstRows(node.defaults.filled(rows.slice(0, MOST_ROWS)))
