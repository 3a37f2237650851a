"""Runs in which the rows of DataFrames are kept in the checkpoint: over Spark Connect, and in a classic session where a
checkpoint was begun over Connect."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from manager.storage.files import entries
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.pulled_files import FOLDER, Reader, pulled_rows
from topologies.engine.pulling import Pulled
from topologies.graph.graph import Graph, SpoutNode
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.pulled import PulledRows
from topologies.io.spouts import FrameSpout
from topologies.spark.declared_frames import declared_frame, refuse_endless
from topologies.spark.frame_reader import FrameReader


class KeepsFrames(CheckpointedRun):
    """A run on Spark that has rows of the checkpoint in place of DataFrames."""

    spark: Any

    @abstractmethod
    def _keeps(self, name: str) -> bool:
        """True if the rows of the DataFrame of this spout are kept. CheckpointError where the run cannot go on with
        it."""

    def _is_kept(self, name: str) -> bool:
        """True if a run before kept its rows."""
        return bool(entries(self.halves.filesystem, f"{self.halves.root}/{FOLDER}/{name}"))

    def _in_this_run(self, topology: Graph) -> Graph:
        spouts = dict(topology.spouts)
        for name, node in self.given.spouts.items():
            if isinstance(node.spout, FrameSpout) and self._keeps(name):
                kept = pulled_rows(name, node.spout.declared, node.spout.defaults, self.halves.path)
                spouts[name] = replace(spouts[name], spout=kept)
        return replace(topology, spouts=spouts)

    def watch(self, name: str, spout: FileSpout) -> WatchedFiles:
        """Makes the object that lists a spout's files; of a DataFrame it keeps the rows first."""
        node = self.given.spouts[name]
        if not (isinstance(spout, PulledRows) and isinstance(node.spout, FrameSpout)):
            return super().watch(name, spout)
        frame = declared_frame(self.spark, node)
        refuse_endless(name, frame, once=self.options.interval is None, kept=True)
        self.watched[name] = self._kept(name, spout, partial(self._reader, node, frame))
        return self.watched[name]

    def _reader(self, node: SpoutNode, frame: DataFrame, offset: Any) -> Reader:
        return FrameReader(node, frame, self.halves, self._is_ending, self.checkpoint.check_owner, offset)

    def _is_ending(self) -> bool:
        """True if no more rows are wanted."""
        return self.options.stop.is_set()


class InOwnThread:
    """A reader of a DataFrame that one thread alone uses: a query that asks for rows is stopped by an interrupt of its
    thread in Java, which would be one of what the reader waits for there, and of the start of its own query."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windbolt-frame")

    @property
    def wants_acknowledgements(self) -> bool:
        """As the reader."""
        return self._reader.wants_acknowledgements

    def pull(self) -> Pulled | None:
        """As the reader."""
        return self._thread.submit(self._reader.pull).result()

    def acknowledge(self, offset: Any) -> None:
        """As the reader."""
        self._thread.submit(self._reader.acknowledge, offset).result()

    def close(self) -> None:
        """As the reader, when the present call has returned."""
        closed = self._thread.submit(self._reader.close)
        self._thread.shutdown()
        closed.result()
