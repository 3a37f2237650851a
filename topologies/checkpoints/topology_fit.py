"""The fit of a topology to a checkpoint: permitted changes, and columns that are added to stored events. Also the notes
in a checkpoint about runs, sinks, graph and rules, by which it is read offline, without the topology.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import FileCheckpoint, read_manifest, read_note
from manager.storage.files import UNREADABLE, storage_errors_during
from manager.storage.manifest import BoltState, Manifest
from manager.storage.sealed_files import SealedFolder
from manager.storage.segments import STREAM_COLUMN, Ref, SegmentStore, SegmentWriter
from manager.storage.task_state import FieldKind
from topologies.checkpoints.paired_checkpoint import (
    ADDING_COLUMNS,
    START,
    START_OVER,
    TOPOLOGY,
    PairedCheckpoint,
    check_before_claim,
    check_halves,
    claim_checkpoint,
    keeping_runs_off,
    naming_a_way_back,
    telling_who_took_over,
)
from topologies.graph.bolt_rules import BoltRules, TopologyRules
from topologies.graph.bolt_rules import plain_json_in_words as rule_in_words
from topologies.graph.graph import Graph, WindowedNode
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink, FunctionSink, Sink, TableSink
from topologies.io.spout_columns import in_words
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from topologies.run.summary import Summary
from windowing.errors import CheckpointError, ConfigError, DamagedCheckpoint, did_you_mean
from windowing.reprs import error_text
from windowing.schema import DEFAULT_STREAM, parse_schema
from windowing.timestamps import show

# Changes in the rules of a topology since its checkpoint was made.


def differences(before: TopologyRules, now: TopologyRules) -> list[str]:
    """Returns a sentence for each changed rule that a checkpoint depends on; code, lag, late streams and sinks may
    change."""
    changed = []
    if before.name != now.name:
        changed.append(f"it is called {now.name!r}, and was {before.name!r}")
    parts = {"spout": (before.spouts, now.spouts), "bolt": (_lasting_rules(before), _lasting_rules(now))}
    for kind, (earlier, later) in parts.items():
        for name in sorted({*earlier, *later}):
            rule_before, rule_now = earlier.get(name), later.get(name)
            if rule_before is None or rule_now is None:
                changed.append(f"{kind} {name!r} is {'new' if rule_before is None else 'gone'}")
                continue
            changed.extend(
                f"{kind} {name!r}: {_change_in_words(what, rule_before.get(what), rule_now.get(what))}"
                for what in sorted({*rule_before, *rule_now})
                if rule_before.get(what) != rule_now.get(what)
            )
    return changed


def _lasting_rules(rules: TopologyRules) -> dict[str, dict[str, Any]]:
    return {name: bolt.unchanging_rules() for name, bolt in rules.bolts.items()}


def without_bolts(rules: TopologyRules, names: Collection[str]) -> TopologyRules:
    """Returns the rules without these bolts, and without the columns of spouts, since bolts list the columns that they
    read."""
    spouts = {name: {"kind": spout["kind"]} for name, spout in rules.spouts.items()}
    return replace(rules, spouts=spouts, bolts={name: bolt for name, bolt in rules.bolts.items() if name not in names})


def bolts_that_differ(before: TopologyRules, now: TopologyRules) -> list[str]:
    """Returns the bolts that are new, removed or changed; empty if something else differs too."""
    earlier, later = _lasting_rules(before), _lasting_rules(now)
    names = [name for name in sorted({*earlier, *later}) if earlier.get(name) != later.get(name)]
    return [] if differences(without_bolts(before, names), without_bolts(now, names)) else names


def _change_in_words(what: str, was: Any, is_: Any) -> str:
    if what == "sums":  # their stored values are not as the user wrote them
        if was and is_:
            return "what it adds up has changed: its aggregates, or the columns that they are by"
        return "it kept " + ("sums, and keeps events now" if was else "events, and keeps sums now")
    return f"{what} was {rule_in_words(was)}, and is {rule_in_words(is_)}"


# Columns that a spout has now, but did not have when its checkpoint was made: may they be added?
#
# Only columns of spouts may, for bolts that read these directly. The checkpoint does not record the output of other
# bolts, so a column that is new to a bolt may have existed before without being kept. Bolts that retract cannot get
# columns either: their retractable rows are kept with the columns that they had.


_OF_STREAM = "columns of "


@dataclass(frozen=True)
class NewColumns:
    """Columns of a topology that are not in the note of its checkpoint."""

    rules: TopologyRules
    """The stored rules with the new columns."""
    by_bolt: dict[str, list[pa.Field]]
    """For each windowed bolt, its new columns."""

    @staticmethod
    def of(stored_rules: TopologyRules, present_rules: TopologyRules, topology: Graph) -> NewColumns:
        """Returns the columns that may be added. ``present_rules``: the rules of the topology, whose other differences
        are ignored."""
        spouts, new = dict(stored_rules.spouts), dict[str, set[str]]()
        for name in spouts.keys() & present_rules.spouts.keys():
            for stream in [
                key for key in spouts[name] if key.startswith(_OF_STREAM) and key in present_rules.spouts[name]
            ]:
                added = _added_columns(spouts[name][stream], present_rules.spouts[name][stream])
                if added:
                    new.setdefault(name, set()).update(added)
                    spouts[name] = {**spouts[name], stream: present_rules.spouts[name][stream]}
        bolts, by_bolt = dict(stored_rules.bolts), dict[str, list[pa.Field]]()
        for name in bolts.keys() & present_rules.bolts.keys():
            added = _added_columns(bolts[name].columns, present_rules.bolts[name].columns)
            node = topology.windowed[name]
            if added is None or node.retracts or not any(each.stream[0] in new for each in node.inputs):
                continue
            if all(_comes_from_spouts(column, node, topology, new) for column in added):
                by_bolt[name] = [node.schema.field(column) for column in added]
                bolts[name] = replace(bolts[name], columns=present_rules.bolts[name].columns)
        return NewColumns(replace(stored_rules, spouts=spouts, bolts=bolts), by_bolt)


def _added_columns(was: str, now: str) -> list[str] | None:
    """Returns the new columns; None if others were removed, have another type, or have a type without a name here."""
    if was == now:
        return []
    try:
        before, after = parse_schema(was), parse_schema(now)
    except ConfigError:
        return None
    common = [field.name for field in after if field.name in before.names]
    if len(common) < len(before) or any(before.field(name).type != after.field(name).type for name in common):
        return None
    return [name for name in after.names if name not in before.names]


def _comes_from_spouts(column: str, node: WindowedNode, topology: Graph, new: dict[str, set[str]]) -> bool:
    """True if no input of a bolt can have had the column before."""
    for each in node.inputs:
        component, stream = each.stream
        if component in topology.spouts:
            had = column in topology.spouts[component].outputs[stream].names
            if had and column not in new.get(component, ()):
                return False
        else:
            emits = topology.windowed.get(component) or topology.plain[component]
            if column in emits.outputs[stream].names:
                return False
    return True


# The note of a checkpoint's topology: may another topology run on it, and with how many tasks?


def check_fit(
    halves: PairedCheckpoint, topology: Graph, first_output: int | None = None, *, allow_rescale: bool = False
) -> None:
    """Raises CheckpointError if the checkpoint belongs to another topology, or began at another output.

    Locks and writes nothing; opening the checkpoint checks this again. ``first_output``: in microseconds; None for any.
    ``allow_rescale``: True if other numbers of tasks are no error, because the caller moves the state.
    """
    stored_rules = read_rules(halves)
    if stored_rules is not None:
        check_topology(halves, topology, stored_rules, allow_rescale=allow_rescale)
        start_note = halves.documents.read(START)
        if start_note is not None:
            check_start(halves, start_note["first_output"], first_output)


def check_topology(
    halves: PairedCheckpoint, topology: Graph, stored_rules: TopologyRules, *, allow_rescale: bool = False
) -> None:
    """Raises CheckpointError, with all differences, if a topology is not the recorded one."""
    present_rules = TopologyRules.of(topology)
    stored_rules = NewColumns.of(stored_rules, present_rules, topology).rules
    expected_rules = stored_rules.with_tasks(present_rules.tasks if allow_rescale else stored_task_counts(halves))
    changed = differences(expected_rules, present_rules)
    if changed:
        only_tasks = not differences(stored_rules.with_tasks(present_rules.tasks), present_rules)
        move = "move its state to the tasks that there are now (--allow-rescale, or windbolt rescale), "
        names = bolts_that_differ(expected_rules, present_rules)
        reset = f"let {', '.join(map(repr, names))} start over (windbolt reset), "
        raise CheckpointError(
            f"checkpoint {halves.path!r} belongs to another topology:\n" + "\n".join(f"  - {each}" for each in changed),
            why="its events were distributed and stored for the topology as it was then",
            do=f"run the topology as it was, {move if only_tasks else reset if names else ''}or {START_OVER}",
        )


def check_start(halves: PairedCheckpoint, stored_first_output: int | None, wanted_first_output: int | None) -> None:
    """Raises CheckpointError if a first output is wanted, and the checkpoint began at another one, or without one; in
    microseconds."""
    if wanted_first_output is None or wanted_first_output == stored_first_output:
        return
    was = "without one" if stored_first_output is None else f"with the one at {show(stored_first_output)}"
    raise CheckpointError(
        f"checkpoint {halves.path!r} cannot have its first output at {show(wanted_first_output)}: it was begun {was}",
        why="what was read and emitted so far depends on the first output",
        do=f"leave it out to continue as before; or {START_OVER}",
    )


def read_rules(halves: PairedCheckpoint) -> TopologyRules | None:
    """Returns the rules of the last run, with the numbers of tasks of the last manifest; None if no run has begun."""
    note = read_note(halves.documents, TOPOLOGY)
    return None if note is None else TopologyRules.from_json(note)


def stored_task_counts(halves: PairedCheckpoint) -> dict[str, int]:
    """Returns the number of tasks of each windowed bolt: after the last batch or, before the first, from the note."""
    manifest = _last_manifest(halves)
    if manifest is None:
        stored_rules = read_rules(halves)
        return {} if stored_rules is None else stored_rules.tasks
    return {name: len(bolt.tasks) for name, bolt in manifest.bolts.items()}


def changed_task_counts(halves: PairedCheckpoint, topology: Graph) -> dict[str, int]:
    """Returns the wanted number of tasks of each bolt for which topology and checkpoint differ."""
    wanted = {name: node.parallelism for name, node in topology.windowed.items()}
    return {
        name: wanted[name] for name, tasks in stored_task_counts(halves).items() if wanted.get(name, tasks) != tasks
    }


def _last_manifest(halves: PairedCheckpoint) -> Manifest | None:
    """Returns the manifest of the last batch. With a run in progress, the listed manifest may be deleted before it is
    read; then a later one is read."""
    keys = halves.documents.names("manifests")
    while keys:
        try:
            return read_manifest(halves.documents, keys[-1])
        except DamagedCheckpoint:
            listed, keys = keys, halves.documents.names("manifests")
            if keys[-1:] == listed[-1:]:
                raise
    return None


# Gives the stored events of a checkpoint the columns that are new to their bolts, with defaults or nulls.


DefaultOfEachInput: TypeAlias = "list[pa.Array | None]"
"""For each input of a bolt, the default of a column in its events, as an array of one value; None without a default."""


def add_columns(
    halves: PairedCheckpoint, topology: Graph, first_output: int | None = None, attempts: Attempts | None = None
) -> dict[str, dict[str, str | None]]:
    """Adds the new columns of a topology to the stored events of a checkpoint; the caller has locked the checkpoint.

    Returns the columns of each windowed bolt, with a description of the default that events get; None for nulls. Raises
    CheckpointError, before anything is written, if the topology does not fit otherwise (``check_fit``). If the process
    dies, a run of the same topology completes the work, and no other run begins. ``attempts``: of the calling run,
    which claims the checkpoint if no lock excludes others.
    """
    with naming_a_way_back(halves):
        new = _new_columns(halves, topology, first_output)
        if new is None:
            return {}
        manifest = check_before_claim(halves)
        checkpoint = claim_checkpoint(halves, attempts or Attempts())
        with telling_who_took_over(checkpoint):
            if halves.uri is not None:
                new, manifest = _new_columns(halves, topology, first_output), check_halves(halves)
            if new is None:  # another run has done it
                return {}
            with (
                storage_errors_during(
                    "adding columns to the events that are kept", "run the same topology again, which does the rest"
                ),
                keeping_runs_off(halves, ADDING_COLUMNS, {"topology": new.rules.to_json()}),
            ):
                after = None if manifest is None else _manifest_with_columns(checkpoint, manifest, topology, new)
                # Earlier batches have the previous topology.
                checkpoint.replace(after, {TOPOLOGY: new.rules.to_json()}, forget_earlier=True)
    return {
        name: {field.name: _in_words(_defaults(field.name, node, topology), node) for field in fields}
        for name, fields in new.by_bolt.items()
        for node in [topology.windowed[name]]
    }


def _defaults(column: str, node: WindowedNode, topology: Graph) -> DefaultOfEachInput:
    """Returns the default of a column for each input of a bolt; inputs other than spouts have none."""
    streams = [each.stream for each in node.inputs]
    return [
        topology.spouts[name].defaults.columns.get(column)
        if name in topology.spouts and stream == DEFAULT_STREAM
        else None
        for name, stream in streams
    ]


def _in_words(defaults: DefaultOfEachInput, node: WindowedNode) -> str | None:
    """Describes a column's values in earlier events: ``'EUR'``, or ``'EUR' (orders), null (refunds)``; None if all are
    null."""
    if not any(default is not None for default in defaults):
        return None
    words = ["null" if default is None else in_words(default) for default in defaults]
    if len(set(words)) == 1:
        return words[0]
    return ", ".join(f"{each} ({label})" for each, label in zip(words, node.streams, strict=True))


def _new_columns(halves: PairedCheckpoint, topology: Graph, first_output: int | None) -> NewColumns | None:
    """Returns the new columns; None if there are none."""
    stored_rules, adding_note = read_rules(halves), halves.documents.read(ADDING_COLUMNS)
    new = None if stored_rules is None else NewColumns.of(stored_rules, TopologyRules.of(topology), topology)
    if new is not None and adding_note is not None and new.rules != TopologyRules.from_json(adding_note["topology"]):
        raise _begun_for_another(halves)
    if new is None or (new.rules == stored_rules and adding_note is None):
        return None
    check_fit(halves, topology, first_output)
    return new


def _begun_for_another(halves: PairedCheckpoint) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {halves.path!r} was being given new columns when a run died",
        why="some of the events that it keeps may have them already",
        do="run the topology that has these columns once more; after that run, others are compared with it",
    )


def _manifest_with_columns(
    checkpoint: FileCheckpoint, manifest: Manifest, topology: Graph, new: NewColumns
) -> Manifest:
    after = Manifest.from_values(manifest.to_values())
    for name, fields in new.by_bolt.items():
        node = topology.windowed[name]
        if name in after.bolts and node.partial_sums is None:  # sums have only key columns and aggregates
            added = {field: _defaults(field.name, node, topology) for field in fields}
            with checkpoint.segments.writer(checkpoint.folder(manifest)) as writer:
                after.bolts[name] = _state_with_columns(
                    after.bolts[name], added, node.schema, checkpoint.segments, writer
                )
    return after


def _state_with_columns(
    bolt: BoltState,
    added: Mapping[pa.Field, DefaultOfEachInput],
    schema: pa.Schema,
    store: SegmentStore,
    writer: SegmentWriter,
) -> BoltState:
    def with_columns(ref: Ref) -> Ref:
        table = store.read(replace(ref, start=0))  # flags are of all rows
        for field, defaults in added.items():
            if field.name in table.column_names:  # from a run that died, with another default perhaps
                table = table.drop_columns([field.name])
            table = table.append_column(field, _column(table, field, defaults))
        rest = [name for name in table.column_names if name not in schema.names]
        new = writer.add(table.select([*schema.names, *rest]))
        return replace(ref, segment=new.segment, offset=new.offset, length=new.length, checksum=new.checksum)

    return replace(bolt, tasks=[task.with_rows(with_columns, FieldKind.EVENTS) for task in bolt.tasks])


def _column(table: pa.Table, field: pa.Field, defaults: DefaultOfEachInput) -> pa.Array:
    """Returns the new column of stored events: each event has the default of its input."""
    if not any(default is not None for default in defaults):
        return pa.nulls(len(table), field.type)
    choices = pa.concat_arrays([pa.nulls(1, field.type) if default is None else default for default in defaults])
    if STREAM_COLUMN not in table.column_names:  # all events are of the first input
        return choices.take(pa.array(np.zeros(len(table), np.int64)))
    return choices.take(table.column(STREAM_COLUMN).combine_chunks())


# The folders of the sinks of a checkpoint's runs, so that going back includes their files.


SINKS = "sinks"

SinkNote = dict[str, Any]


def note_sinks(files: SealedFolder, topology: Graph, batch: int) -> None:
    """Adds the sinks of a topology to the note of earlier sinks; ``batch``: the last committed one.

    A sink that the topology no longer has is recorded with the last batch whose files in its folder are its own: one
    more than the last committed, which may have begun. Later files there belong to others.

    No rows depend on this note, so a damaged one is rewritten. If it lacks an earlier sink, that sink's files are found
    when the sink is used again (``commit.refuse_later_files``).
    """
    earlier: list[SinkNote] = []
    with suppress(*UNREADABLE):
        earlier = read_sinks(files)
    now = [note for name, node in topology.sinks.items() if (note := _sink_note(name, node.sink)) is not None]
    unused = [{"last_batch": batch + 1, **note} for note in earlier if _without_last_batch(note) not in now]
    if now + unused != earlier or not files.has(SINKS):
        files.write(SINKS, {"sinks": now + unused})


def _without_last_batch(note: SinkNote) -> SinkNote:
    return {name: value for name, value in note.items() if name != "last_batch"}


def read_sinks(files: SealedFolder) -> list[SinkNote]:
    """Returns the sinks of all runs: ``name``, ``kind``, the ``folder`` of a file sink; ``last_batch``, the last batch,
    if the sink is no longer used."""
    found: dict[str, list[SinkNote]] | None = files.read(SINKS)
    return [] if found is None else found["sinks"]


def _sink_note(name: str, sink: Sink) -> SinkNote | None:
    match sink:
        case FileSink():
            return {"name": name, "kind": "files", "folder": sink.path}
        case KafkaSink():
            return {"name": name, "kind": "kafka"}
        case FunctionSink():
            return {"name": name, "kind": "function"}
        case TableSink(table):
            return {"name": name, "kind": "table", "table": table}
    return None


# The runs on a checkpoint: when each began and how it ended, for later inspection.


RUNS = "runs"
KEPT_RUNS = 20
"""Number of the latest runs that are recorded."""


@dataclass(frozen=True, kw_only=True)
class RunNote:
    """One run, with all its restarts; times in microseconds, by the machine's clock."""

    run: str
    """Id of the run."""
    engine: str
    began: int
    continues: int | None
    """The batch after which it continued; None if it was the first run on the checkpoint."""
    ended: int | None = None
    """End of the run; None while the run is in progress, and if it died."""
    how: str | None = None
    """Outcome of the run: ``finished``, ``stopped``, ``failed``, or ``restarting`` after a failure from which it
    restarts. None if ``ended`` is None."""
    error: str | None = None
    """Error that ended a failed run; for a run in progress, the reason of its last restart."""
    restarts: int = 0
    """Number of restarts after a failure."""
    changed: str | None = None
    """Description of a change of the checkpoint, if this records a change instead of a run."""


@contextmanager
def recording_run(files: SealedFolder, began: RunNote, summary: Summary, attempts: Attempts) -> Iterator[None]:
    """Records a run that begins and ends with the block; ``summary``: tells if it was stopped. All attempts of a run
    share one record.

    In object stores runs are not recorded: a run that has lost the checkpoint must not write there.
    """
    if files.uri is not None:
        yield
        return
    note = replace(_earlier_attempt(files, attempts) or began, ended=None, how=None, restarts=attempts.restarts)
    attempts.first_run = note.run
    _write_run(files, note)
    try:
        yield
    except BaseException as error:
        how = "restarting" if attempts.restarts_after(error) else "failed"
        _write_run(files, replace(note, ended=system_clock(), how=how, error=error_text(error)))
        raise
    how = "stopped" if summary.stopped else "finished"
    _write_run(files, replace(note, ended=system_clock(), how=how, error=None))


def note_change(files: SealedFolder, changed: str) -> None:
    """Records a change of a checkpoint among the runs, as text; but not in object stores, where no runs are
    recorded."""
    if files.uri is None:
        now = system_clock()
        note = RunNote(run=uuid.uuid4().hex, engine="", began=now, continues=None, ended=now, changed=changed)
        _write_run(files, note)


def _earlier_attempt(files: SealedFolder, attempts: Attempts) -> RunNote | None:
    """Returns the record of an earlier attempt of the same run; None for the first attempt."""
    return next((note for note in read_runs(files) if note.run == attempts.first_run), None)


def read_runs(files: SealedFolder) -> list[RunNote]:
    """Returns the latest runs, in order; none if the note is damaged or of another format."""
    found: dict[str, list[dict[str, Any]]] | None = None
    with suppress(*UNREADABLE):
        found = files.read(RUNS)
    with suppress(TypeError, KeyError):
        return [] if found is None else [RunNote(**values) for values in found["runs"]]
    return []


def _write_run(files: SealedFolder, note: RunNote) -> None:
    """Writes the record if possible: nothing depends on it, so the run continues without it."""
    others = [noted for noted in read_runs(files) if noted.run != note.run]
    with suppress(*UNREADABLE, OSError):
        files.write(RUNS, {"runs": [asdict(each) for each in [*others, note][-KEPT_RUNS:]]})


# Inspecting a checkpoint from outside, perhaps during a run: does it exist, and by which rules do its windows fire?


def checkpoint_at(folder: str) -> PairedCheckpoint:
    """Returns the checkpoint in a folder, for inspection. Raises CheckpointError if there is none."""
    halves = PairedCheckpoint(folder)
    if not halves.found:
        raise CheckpointError(
            f"{folder!r} is not a checkpoint",
            why="it has neither of the folders spark/ and windbolt/",
            do="give the folder that was passed to --checkpoint",
        )
    return halves


def require_rules(halves: PairedCheckpoint) -> TopologyRules:
    """Returns the rules of the last run on a checkpoint. Raises CheckpointError if they are missing."""
    stored_rules = read_rules(halves)
    if stored_rules is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not say by which rules its windows fire",
            why=f"{halves.documents.path(TOPOLOGY)} is not there: no run has begun, or it was deleted",
            do="run the topology on it once",
        )
    return stored_rules


def the_only_bolt(halves: PairedCheckpoint, all_rules: Mapping[str, BoltRules], naming: str = "{}") -> str:
    """Returns the name of the only bolt with windows. Raises ConfigError if there are several, or none. ``naming``: how
    the caller would name one of several, with braces for the name."""
    if len(all_rules) != 1:
        raise ConfigError(
            f"which bolt of checkpoint {halves.path!r} is meant?",
            why=f"it has {', '.join(all_rules) or 'no windowed bolts'}",
            do=f"name one of them: {naming.format(next(iter(all_rules)))}"
            if all_rules
            else "look at one with windowed bolts",
        )
    return next(iter(all_rules))


def rules_of(all_rules: Mapping[str, BoltRules], bolt: str, key: str | None) -> BoltRules:
    """Returns the rules of a bolt. Raises ConfigError for an unknown bolt, and for a key if the bolt has none."""
    if bolt not in all_rules:
        raise ConfigError(
            f"there is no windowed bolt {bolt!r}{did_you_mean(bolt, all_rules)}",
            why=f"the checkpoint has {', '.join(all_rules) or 'none'}",
            do="name one of them",
        )
    if key is not None and not all_rules[bolt].key:
        raise ConfigError(
            f"bolt {bolt!r} has no key", why="its windows hold the events of all keys", do="ask without a key"
        )
    return all_rules[bolt]
