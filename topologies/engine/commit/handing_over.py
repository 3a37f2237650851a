"""Hands the rows of a batch to the sinks that the driver serves."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size

import pyarrow as pa

from manager.storage.batch_keys import batch_name
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from topologies.engine.commit.frames import Frames
from topologies.engine.commit.row_lines import LINE, row_lines
from topologies.engine.failures.forks import in_this_process
from topologies.engine.rows.sink_rows import SinkBatch, SinkRows
from topologies.graph.nodes.sink import SinkNode
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import ConsoleSink, FunctionSink, MemorySink


def hand_over(node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore, frames: Frames) -> None:
    """Hand the rows of a batch to a sink that the driver serves."""
    sink, key, serial = node.sink, batch.key, batch.serial
    refs = [rows.ref for rows in sink_rows]
    match sink:
        case MemorySink():
            sink.batches[key] = _table(store, refs)
        case ConsoleSink():
            _show(node.name, key, store, refs, sink.rows)
        case FunctionSink(function, "spark"):
            in_this_process(lambda: function(frames.frame(store, refs, node.schema), serial))
        case FunctionSink(function, "arrow"):
            in_this_process(lambda: function(_table(store, refs), serial))
        case FunctionSink(function, _):
            in_this_process(lambda: function(_table(store, refs).to_pandas(), serial))
        case KafkaSink():
            frames.send(node, batch, sink_rows, store)


def tells_others(node: SinkNode) -> bool:
    """Whether what a sink is handed cannot be taken back: who is told of a batch never hears that it was not."""
    return isinstance(node.sink, FunctionSink | KafkaSink)


def _table(store: SegmentStore, refs: Sequence[Ref]) -> pa.Table:
    store.expect(refs)
    return pa.concat_tables([store.read(ref) for ref in refs])


def _show(name: str, key: str, store: SegmentStore, refs: list[Ref], most: int) -> None:
    total = sum(ref.rows for ref in refs)
    shown: list[dict[str, object]] = []
    for ref in refs:
        if len(shown) < most:
            shown.extend(store.read(ref).slice(0, most - len(shown)).to_pylist())
    number = f"{total} row{'' if total == 1 else 's'}"
    print(f"-- {name}, batch {batch_name(key)}: {number}{f', the first {most}' if total > most else ''}")
    width = get_terminal_size((LINE, 0)).columns
    for row in shown:
        print("\n".join(row_lines(row, width)))
