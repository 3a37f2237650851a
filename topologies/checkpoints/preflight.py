"""Findings about a topology before an engine starts: reasons why a run would fail, and likely mistakes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from manager.remote import root_and_path
from manager.storage.files import as_storage_error, make_folder, storage_errors_about, storage_errors_during
from manager.storage.hdfs import is_hdfs
from topologies.checkpoints.inspect_spouts import Findings, refuse_missing, refuse_missing_input
from topologies.checkpoints.paired_checkpoint import SAMPLE_FILES, PairedCheckpoint, naming_a_way_back
from topologies.checkpoints.topology_fit import check_fit
from topologies.engine.commit import no_catalog
from topologies.engine.kafka_records import errors_about
from topologies.engine.librdkafka import check_options
from topologies.graph.graph import ERRORS, Graph, SinkNode, SpoutNode, Stream, WindowedNode, stream_label
from topologies.io.file_spout import FileSpout, SpoutOfRowsInMemory
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.paths import canonical_place, files_matched_by, locate, shown_path
from topologies.io.sinks import FileSink, FunctionSink, TableSink
from topologies.io.spouts import FrameSpout
from topologies.io.topics.decode import check_topic
from topologies.io.topics.encode import TopicRecords, preview_registration, register_schemas
from topologies.run.options import RunOptions, refuse_in_process
from windowing.bolts.aggregate_bolt import AggregateBolt
from windowing.bolts.bolt import StatefulBatchBolt
from windowing.durations import Duration
from windowing.errors import ConfigError, StorageError, UnreachableError, did_you_mean
from windowing.settings.rules import Bounds, LateAction, OutputTime, WatermarkCombiner

# The folders of file sinks: can a run make them and write there?


def inspect_sinks(topology: Graph) -> dict[str, Findings]:
    """Returns the findings about each sink, by name. Makes nothing, and leaves nothing behind."""
    return {name: _findings_of_sink(node) for name, node in topology.sinks.items()}


def make_sink_folders(topology: Graph) -> None:
    """Makes the local folders of file sinks. Raises StorageError for a folder that cannot be made or written to."""
    for node in topology.sinks.values():
        folder = _local_folder(node)
        if folder is not None:
            with storage_errors_about(f"sink {node.name!r}"):
                make_folder(pafs.LocalFileSystem(), folder)
                _try_writing(folder)


def _findings_of_sink(node: SinkNode) -> Findings:
    folder = _local_folder(node)
    if folder is None:
        return Findings()
    exists = os.path.isdir(folder)
    try:
        with storage_errors_about(f"sink {node.name!r}"):
            _try_writing(folder if exists else _nearest(folder))
    except StorageError as error:
        return Findings(problems=(error,))
    return Findings((("folder", "is there, and can be written to" if exists else "is not there yet, and can be made"),))


def _local_folder(node: SinkNode) -> str | None:
    if not isinstance(node.sink, FileSink):
        return None
    folder = shown_path(node.sink.path)
    return None if "://" in folder else folder


def _nearest(folder: str) -> str:
    """Returns the deepest existing folder above a missing one. Raises StorageError if the path above it is not a
    folder."""
    above = os.path.dirname(folder)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        with as_storage_error(folder, "made"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), above)
    return above


def _try_writing(folder: str) -> None:
    """Checks that a file can be written in a folder, with an unnamed file, or with a file that is deleted at once."""
    with as_storage_error(folder, "written to"), tempfile.TemporaryFile(dir=folder, prefix="."):
        pass


# Problems that would make a run fail, found before an engine starts.


def refuse_before_start(topology: Graph, options: RunOptions) -> None:
    """Raises errors early that a run would raise anyway.

    Raises CheckpointError if the checkpoint belongs to another topology; StorageError if a sink's folder cannot be made
    or written to; ConfigError if input is missing; EnvironmentMissing or ConfigError if input or a sink is in HDFS,
    which cannot be reached.

    This saves the seconds in which Spark starts. The checkpoint is not locked meanwhile, so the run checks everything
    again.
    """
    assert options.checkpoint is not None
    _check_hdfs(topology)
    _refuse_own_checkpoint(topology, options.checkpoint)
    refuse_missing_input(topology)
    with storage_errors_during("the start of the run", "nothing is lost"):
        halves = PairedCheckpoint(options.checkpoint)
        with naming_a_way_back(halves):
            check_fit(halves, topology, options.first_output_at, allow_rescale=options.allow_rescale)
        make_sink_folders(topology)


def _refuse_own_checkpoint(topology: Graph, checkpoint: str) -> None:
    """Raises ConfigError for a spout that would read files of the checkpoint, because each batch writes new files
    there."""
    checkpoint_place = canonical_place(checkpoint)
    files = [checkpoint_place.below(file) for file in SAMPLE_FILES]
    for name, node in topology.spouts.items():
        spout = node.spout
        if not isinstance(spout, FileSpout) or isinstance(spout, SpoutOfRowsInMemory):
            continue
        if files_matched_by(spout.paths, files):
            raise ConfigError(
                f"spout {name!r} would read the checkpoint of the run",
                why=f"{spout.path!r} stands for files in {checkpoint_place}, to which each batch adds",
                do="name a checkpoint that is not among the input, or a narrower pattern",
            )


def _check_hdfs(topology: Graph) -> None:
    """Opens the HDFS file systems that the topology names, without contacting a NameNode."""
    spouts_and_sinks = [
        *(node.spout for node in topology.spouts.values()),
        *(node.sink for node in topology.sinks.values()),
    ]
    for part in spouts_and_sinks:
        for path in part.paths if isinstance(part, FileSpout) else [part.path] if isinstance(part, FileSink) else []:
            if is_hdfs(shown_path(path)):
                locate(path)


# Features that need Spark, and that a run in this process refuses.


def check_local(topology: Graph, options: RunOptions) -> None:
    """Raises ConfigError for parts or options that ``run_local`` does not support, EnvironmentMissing if the package
    for Kafka is missing."""
    refuse_in_process(options)
    _refuse_spark(topology)
    if options.checkpoint is not None:
        _refuse_own_checkpoint(topology, options.checkpoint)
    check_options(topology)


def _refuse_spark(topology: Graph) -> None:
    """Raises ConfigError for features that only Spark has: DataFrames, and listing files outside this machine."""
    for name, node in topology.spouts.items():
        match node.spout:
            case FrameSpout():
                raise ConfigError(
                    f"spout {name!r} is a Spark DataFrame",
                    why="a local run has no Spark",
                    do="run on Spark, or replay scenarios of the topology",
                )
            case FileSpout() as spout:
                _refuse_stores(name, spout)
                refuse_missing(name, spout)
            case _:
                continue
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, TableSink):
            raise no_catalog(name)
        if isinstance(sink.sink, FunctionSink) and sink.sink.frame == "spark":
            raise ConfigError(
                f"sink {name!r}: its function needs a Spark DataFrame, and a local run has no Spark",
                do="use foreach_batch(function, frame='arrow') or frame='pandas', or run on Spark",
            )


def _refuse_stores(name: str, spout: FileSpout) -> None:
    """Raises ConfigError for an HDFS path without a NameNode, and for file systems that only Spark reaches."""
    why = "files are noted by the name of their host; a run on Spark that continued would read them again"
    refuse_hdfs_without_host(name, spout, why)
    for path in spout.paths:
        shown = shown_path(path)
        if "://" in shown and not is_hdfs(shown):
            raise ConfigError(
                f"spout {name!r} reads {path!r}",
                why="a local run lists files of this machine",
                do="run on Spark, or copy them to a folder here",
            )


def refuse_hdfs_without_host(name: str, spout: FileSpout, why: str) -> None:
    """Raises ConfigError for an HDFS path without a NameNode, if no configuration names one."""
    for path in spout.paths:
        shown = shown_path(path)
        if is_hdfs(shown) and not urlsplit(root_and_path(shown)[0]).netloc:
            raise ConfigError(
                f"spout {name!r} reads {path!r}, which names no host",
                why=why,
                do="name it as fs.defaultFS in core-site.xml does, such as hdfs://shop/in",
            )


# Schema registries: do they respond, and do their schemas fit the declared columns?


def register_and_check_schemas(topology: Graph) -> None:
    """Registers the schemas of sinks, and compares those of topics with the declared columns.

    Raises ConfigError if a schema is refused or does not fit, UnreachableError if a registry does not respond.
    """
    for name, node in topology.spouts.items():
        spout = node.spout
        if isinstance(spout, KafkaSpout) and spout.registry is not None:
            with errors_about(f"spout {name!r}"):
                for topic in spout.topics or (None,):
                    check_topic(spout.rows, topic)
    for name, sink_node in topology.sinks.items():
        sink = sink_node.sink
        if isinstance(sink, KafkaSink) and sink.records is not None:
            with errors_about(f"sink {name!r}"):
                register_schemas(sink.records, sink_node.schema)


def with_short_registry_timeouts(topology: Graph) -> Graph:
    """Returns the topology for a short check, with short timeouts of registries. A run waits longer."""
    spouts, sinks = dict(topology.spouts), dict(topology.sinks)
    for name, node in topology.spouts.items():
        spout = node.spout
        if isinstance(spout, KafkaSpout) and spout.registry is not None:
            spouts[name] = replace(node, spout=replace(spout, registry=spout.registry.with_short_timeout()))
    for name, sink_node in topology.sinks.items():
        sink = sink_node.sink
        if isinstance(sink, KafkaSink) and sink.records is not None and sink.records.registry is not None:
            records = replace(sink.records, registry=sink.records.registry.with_short_timeout())
            sinks[name] = replace(sink_node, sink=replace(sink, records=records))
    return replace(topology, spouts=spouts, sinks=sinks)


def inspect_registries(topology: Graph) -> dict[str, Findings]:
    """Returns the answers of registries about the topics of spouts and sinks, by the names of spouts and sinks.
    Registers nothing."""
    found: dict[str, Findings] = {}
    for name, node in topology.spouts.items():
        spout = node.spout
        if isinstance(spout, KafkaSpout) and spout.registry is not None:
            found[name] = _registry_findings(f"spout {name!r}", partial(_schemas_of_spout, node, spout))
    for name, sink_node in topology.sinks.items():
        sink = sink_node.sink
        if isinstance(sink, KafkaSink) and sink.records is not None and sink.records.registry is not None:
            found[name] = _registry_findings(f"sink {name!r}", partial(_schemas_of_sink, sink_node, sink.records))
    return found


def _registry_findings(whose: str, ask: Callable[[], Findings]) -> Findings:
    """Returns the answers of a registry. One that does not respond now may do so when the run begins."""
    try:
        with errors_about(whose):
            return ask()
    except UnreachableError as error:
        return Findings(warnings=(error,)) if error.transient else Findings(problems=(error,))
    except ConfigError as error:
        return Findings(problems=(error,))


def _schemas_of_spout(node: SpoutNode, spout: KafkaSpout) -> Findings:
    registered_schemas = [schema for topic in spout.topics or (None,) for schema in check_topic(spout.rows, topic)]
    warnings = [
        ConfigError(
            f"spout {node.name!r}: {schema.description}",
            why="records that were written by it are invalid",
            do="say in format= how the topic is written",
        )
        for schema in registered_schemas
        if schema.is_other
    ]
    warnings += [
        ConfigError(
            f"spout {node.name!r}: the schema has no field {column!r}{did_you_mean(column, schema.fields)}",
            why=f"its values are null; {schema.description.partition(':')[0]} has {', '.join(schema.fields)}",
            do="spell the column as in the schema, or leave it out",
        )
        for schema in registered_schemas
        for column in schema.lacking
        if column not in node.defaults.columns
    ]
    return Findings(tuple(("schema", schema.description) for schema in registered_schemas), warnings=tuple(warnings))


def _schemas_of_sink(node: SinkNode, records: TopicRecords) -> Findings:
    return Findings(
        tuple(("schema", f"of {description}") for description in preview_registration(records, node.schema))
    )


# Inputs without the columns that a bolt adds up: their events have nulls in them, and change nothing.


def missing_column_warnings(topology: Graph) -> dict[str, Findings]:
    """Returns a warning for each input of an AggregateBolt that has none of the columns in its aggregates, by bolt
    name.

    An input with some of them is no mistake: two streams may be aggregated side by side, each in its own columns.
    """
    found = {name: tuple(_inputs_without_summed_columns(topology, node)) for name, node in topology.windowed.items()}
    return {name: Findings(warnings=warnings) for name, warnings in found.items() if warnings}


def _inputs_without_summed_columns(topology: Graph, node: WindowedNode) -> Iterator[ConfigError]:
    bolt = node.bolt
    if not isinstance(bolt, AggregateBolt):
        return
    summed_columns = sorted(bolt.columns_read - frozenset(bolt.by))
    for each in node.inputs:
        columns = topology.columns_of(each.stream)
        if summed_columns and not frozenset(summed_columns) & frozenset(columns):
            yield ConfigError(
                f"bolt {node.name!r} adds up {', '.join(map(repr, summed_columns))}, and {stream_label(each.stream)!r} "
                "has none of these columns",
                why=f"they are null in its events, so that sums leave them out; it has {', '.join(columns)}",
                do="rename the intended column in a bolt between the two; outputs= and rename= name those of a join",
            )


# Chains in which the rows of a window fall into the next window of the bolt behind it.


def shifted_chains(topology: Graph) -> Iterator[str]:
    """Yields a sentence for each bolt with windows ``[start, end)`` that reads rows timed at the ends of such windows:
    each end is the start of the reader's next window."""
    for node in topology.windowed.values():
        if not (node.event_time and _has_regular_starts(node)):
            continue
        windowed_bolts_before = {
            origin.bolt
            for origins, has_times_already in zip(node.origins, node.brings_time, strict=True)
            for origin in origins
            if has_times_already and _has_its_end_as_time(topology.windowed[origin.bolt])
        }
        for name in sorted(windowed_bolts_before):
            yield (
                f"the rows of {name} have the time of the end of their window, which is in the next window of "
                f"{node.name}: with_time(output_time='window last') on {name} keeps them in theirs"
            )


def _has_its_end_as_time(node: WindowedNode) -> bool:
    return node.bolt.settings.output_time is OutputTime.END and _has_regular_starts(node)


def _has_regular_starts(node: WindowedNode) -> bool:
    """True if its windows are ``[start, end)`` and follow each other at regular times."""
    settings = node.bolt.settings
    if settings.key_trigger is not None or settings.bounds is not Bounds.START:
        return False
    if settings.kinds:
        return all(kind.edges_known for kind in settings.kinds)
    return isinstance(settings.length, Duration) and isinstance(settings.slide, Duration)


# Streams beside a component's output that nothing reads: their rows are counted, but kept nowhere.


def unread_streams(topology: Graph) -> Iterator[str]:
    """Yields a sentence for each kind of row that nothing keeps: unreadable rows, failed events, and late events."""
    errors = [name for name in topology.spouts if not _errors_are_read(topology, name)]
    if errors:
        yield f"the stream 'errors' of {', '.join(errors)} is not read: rows that cannot be read are counted, not kept"
    failed = [name for name, node in topology.plain.items() if node.bolt.on_error == "errors"]
    failed = [name for name in failed if not _errors_are_read(topology, name)]
    if failed:
        yield f"the stream 'errors' of {', '.join(failed)} is not read: events on which it fails are counted, not kept"
    late = [name for name in topology.windowed if _late_is_lost(topology, name)]
    if late:
        yield f"the late events of {', '.join(late)} are not read: they are counted, not kept"


def _errors_are_read(topology: Graph, component: str) -> bool:
    """True if a sink or bolt reads the errors of a spout or plain bolt: its own error stream, or the error stream of a
    bolt that reads it."""
    readers = [name for stream, found in topology.readers.items() if stream[0] == component for name, _ in found]
    return any(_is_read(topology, name, ERRORS) for name in (component, *readers))


def _late_is_lost(topology: Graph, bolt: str) -> bool:
    """True if late events of a bolt are diverted to a stream that nothing reads, or dropped."""
    node = topology.windowed[bolt]
    settings = node.bolt.settings
    from_spouts = not all(node.origins)
    if not node.event_time or not from_spouts or settings.late_action is not LateAction.DIVERT:
        return False
    return settings.late_stream is None or not _is_read(topology, bolt, settings.late_stream)


def _is_read(topology: Graph, name: str, stream: str) -> bool:
    return bool(topology.readers.get((name, stream)) or topology.sinks_reading.get((name, stream)))


# Bolts whose watermark waits for another bolt's stream that may long bring no event.


def blocked_watermark_warnings(topology: Graph) -> dict[str, Findings]:
    """Returns a warning for each bolt with several inputs whose windows stay open until a stream of the topology brings
    its first event; by bolt name."""
    found = {name: tuple(_waits_for_windows(topology, node)) for name, node in topology.windowed.items()}
    return {name: Findings(warnings=warnings) for name, warnings in found.items() if warnings}


def _waits_for_windows(topology: Graph, node: WindowedNode) -> Iterator[ConfigError]:
    settings = node.bolt.settings
    goes_on_without_input = settings.idle_timeout or settings.partition_idle_timeout or settings.estimate_arrival
    waits_for_all_inputs = settings.watermark_combine is WatermarkCombiner.MIN and not settings.watermark_per_key
    if len(node.inputs) < 2 or not node.event_time or goes_on_without_input or not waits_for_all_inputs:
        return
    imports = settings.watermark_imports or {}
    others = [stream_label(each.stream) for each in node.inputs]
    for label, each, origins, has_times_already in zip(
        node.streams, node.inputs, node.origins, node.brings_time, strict=True
    ):
        if label in imports or not _comes_from_windows(topology, each.stream) or (origins and has_times_already):
            continue
        other = next(name for name in others if name != label)
        yield ConfigError(
            f"bolt {node.name!r} waits for {label!r}, which comes from windows of this topology",
            why="none of its windows fires before that stream has brought an event, and it may be silent for long",
            do=f"let it take the watermark of another input, with_watermark(imports={{{label!r}: {other!r}}}), or have "
            "the clock close windows, with_watermark(idle_timeout=...)",
        )


def _comes_from_windows(topology: Graph, stream: Stream) -> bool:
    """True if a stream comes from a windowed bolt, directly or not."""
    component, _ = stream
    node = topology.windowed.get(component)
    if node is not None and not node.without_windows:
        return True
    bolt_between = node or topology.plain.get(component)
    return bolt_between is not None and any(_comes_from_windows(topology, each.stream) for each in bolt_between.inputs)


# Watermarks at events, behind bolts that change the order of events.


def reordering_warnings(topology: Graph) -> dict[str, Findings]:
    """Returns a warning for each bolt whose watermark advances between the events of a batch although they come out of
    order; by bolt name."""
    found = {name: tuple(_reads_reordered(topology, node)) for name, node in topology.windowed.items()}
    return {name: Findings(warnings=warnings) for name, warnings in found.items() if warnings}


def _reads_reordered(topology: Graph, node: WindowedNode) -> Iterator[ConfigError]:
    if node.without_windows or not node.event_time or not node.bolt.settings.watermark_moves_within_batch:
        return
    inputs = zip(node.inputs, node.brings_time, strict=True)
    reordering_bolts = [
        name
        for each, has_times_already in inputs
        if not has_times_already
        for name in _reordering_bolts(topology, each.stream)
    ]
    for name in dict.fromkeys(reordering_bolts):
        tasks = topology.windowed[name].parallelism
        yield ConfigError(
            f"bolt {node.name!r} has a watermark at its events, and gets them from {name!r}, which changes their order",
            why=(
                f"of {tasks} tasks the rows of one come before those of the next"
                if tasks > 1
                else "it is called with the events of one key after those of another"
            )
            + ", so that events are late that are not late without it, others with other numbers of tasks",
            do="give that bolt one task"
            + ("" if tasks > 1 else " and execute(tuple), as a StatefulBolt")
            + ", or let the watermark advance between batches: with_watermark(every=) left out",
        )


def _reordering_bolts(topology: Graph, stream: Stream) -> Iterator[str]:
    """Yields the bolts without windows before a stream whose rows are not in the order of their events."""
    component, _ = stream
    node = topology.windowed.get(component)
    if node is not None:
        by_key = isinstance(node.bolt, StatefulBatchBolt) and bool(node.bolt.settings.key)
        if node.without_windows and (node.parallelism > 1 or by_key):
            yield component
    bolt_between = (node if node is not None and node.without_windows else None) or topology.plain.get(component)
    for each in () if bolt_between is None else bolt_between.inputs:
        yield from _reordering_bolts(topology, each.stream)
