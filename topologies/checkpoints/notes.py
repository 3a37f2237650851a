"""The notes in a checkpoint about runs, sinks, graph and rules, with which it is read offline, without the topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np

from manager.storage.files import UNREADABLE
from manager.storage.sealed_files import SealedFolder
from policies import assigners
from policies.assigners import AlignedWindows, WindowAssigner
from policies.protocol import forget_after, is_own
from policies.trigger import TimeTriggerPolicy
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.graph.describing import boxes_and_arrows, key_trigger_in_words, policies_in_words
from topologies.graph.graph import WindowedNode, decisive_columns, has_windows_of_time
from topologies.graph.groupings import FieldsGrouping
from topologies.graph.html import Arrow, Box
from topologies.graph.topology import Topology
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink, FunctionSink, Sink, TableSink
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from topologies.run.summary import Summary
from windowing.durations import Count, Duration
from windowing.errors import CheckpointError, ConfigError, did_you_mean
from windowing.reprs import error_text
from windowing.settings.declaration import SOURCE_ONLY
from windowing.settings.rules import START, Bounds, IdleRule, WatermarkCombiner

# The folders of the sinks of a checkpoint's runs, so that going back includes their files.


SINKS = "sinks"

SinkNote = dict[str, Any]


def note_sinks(files: SealedFolder, topology: Topology, batch: int) -> None:
    """Add the sinks of a topology to those of earlier runs; ``batch`` is the last that was committed.

    Sinks of earlier runs that the topology no longer has are noted with the last batch that may have written there:
    later files in their folders are somebody else's.

    No rows depend on this note: one that is damaged is rewritten. If an earlier sink is missing in it, its files are
    found again when that sink is used again (delivering.refuse_later).
    """
    known: list[SinkNote] = []
    with suppress(*UNREADABLE):
        known = read_sinks(files)
    now = [note for name, node in topology.sinks.items() if (note := _note(name, node.sink)) is not None]
    gone = [{"until": batch + 1, **note} for note in known if _bare(note) not in now]
    if now + gone != known or not files.has(SINKS):
        files.write(SINKS, {"sinks": now + gone})


def _bare(note: SinkNote) -> SinkNote:
    return {name: value for name, value in note.items() if name != "until"}


def read_sinks(files: SealedFolder) -> list[SinkNote]:
    """Returns the sinks of all runs: ``name``, ``kind``, the ``folder`` of a sink of files; ``until``, the last batch,
    if the sink is no longer used."""
    found: dict[str, list[SinkNote]] | None = files.read(SINKS)
    return [] if found is None else found["sinks"]


def _note(name: str, sink: Sink) -> SinkNote | None:
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


# The runs on a checkpoint: when each began and how it ended, to be looked at later.


RUNS = "runs"
KEPT_RUNS = 20
"""Number of the latest runs that are noted."""


@dataclass(frozen=True, kw_only=True)
class RunNote:
    """One run, with all its restarts; times in microseconds, by the clock of the machine."""

    run: str
    """Id of the run."""
    engine: str
    began: int
    continues: int | None
    """The batch after which it continued; None where it began the checkpoint."""
    ended: int | None = None
    """End of the run; None while it is in progress, and if it died."""
    how: str | None = None
    """Outcome of the run: ``finished``, ``stopped``, ``failed``, or ``restarting`` where it failed and is started
    again; None with ``ended``."""
    error: str | None = None
    """Error that ended a failed run; for one in progress, the reason of its last restart."""
    restarts: int = 0
    """Number of restarts after a failure."""


@contextmanager
def noted_run(files: SealedFolder, began: RunNote, summary: Summary, attempts: Attempts) -> Iterator[None]:
    """Note a run that begins and ends with the block; ``summary`` says whether it was stopped. All attempts of a run
    are one note.

    In object stores runs are not noted: one that has lost the checkpoint to another must write nothing there.
    """
    if files.uri is not None:
        yield
        return
    note = replace(_noted_before(files, attempts) or began, ended=None, how=None, restarts=attempts.restarts)
    attempts.first_run = note.run
    _write(files, note)
    try:
        yield
    except BaseException as error:
        how = "restarting" if attempts.restarts_after(error) else "failed"
        _write(files, replace(note, ended=system_clock(), how=how, error=error_text(error)))
        raise
    how = "stopped" if summary.stopped else "finished"
    _write(files, replace(note, ended=system_clock(), how=how, error=None))


def _noted_before(files: SealedFolder, attempts: Attempts) -> RunNote | None:
    """Returns the note of an earlier attempt of the same run; None for the first one."""
    return next((note for note in read_runs(files) if note.run == attempts.first_run), None)


def read_runs(files: SealedFolder) -> list[RunNote]:
    """Returns the latest runs, the last one last; none where the note is damaged or of another form."""
    found: dict[str, list[dict[str, Any]]] | None = None
    with suppress(*UNREADABLE):
        found = files.read(RUNS)
    with suppress(TypeError, KeyError):
        return [] if found is None else [RunNote(**values) for values in found["runs"]]
    return []


def _write(files: SealedFolder, note: RunNote) -> None:
    """Writes the note if it can: nothing depends on it, so the run continues without it."""
    others = [known for known in read_runs(files) if known.run != note.run]
    with suppress(*UNREADABLE, OSError):
        files.write(RUNS, {"runs": [asdict(each) for each in [*others, note][-KEPT_RUNS:]]})


# The graph of a topology as plain JSON, in the note of its rules: to look at a checkpoint without the topology.


def graph_values(topology: Topology) -> dict[str, Any]:
    """Returns the boxes and arrows of the graph, as values for JSON."""
    boxes, arrows = boxes_and_arrows(topology)
    return {
        "boxes": [{**asdict(box), "facts": list(box.facts)} for box in boxes],
        "arrows": [asdict(arrow) for arrow in arrows],
    }


def graph_from(values: dict[str, Any]) -> tuple[list[Box], list[Arrow]]:
    """Returns the boxes and arrows that ``graph_values`` gave."""
    boxes = [Box(each["name"], each["kind"], tuple(each["facts"])) for each in values["boxes"]]
    return boxes, [Arrow(**each) for each in values["arrows"]]


# Window assigners as plain JSON, in the note of a bolt's rules: to form its windows without the topology.


_ASSIGNERS = {name: getattr(assigners, name) for name in assigners.__all__ if name.endswith("Windows")}
_ENUMS: dict[str, type[Enum]] = {"Bounds": Bounds}


def assigner_values(assigner: WindowAssigner) -> dict[str, Any]:
    """Returns an assigner as plain JSON: the name of its class, and its fields."""
    given = {column.name: _plain(getattr(assigner, column.name)) for column in fields(assigner)}  # type: ignore[arg-type]
    return {"class": type(assigner).__name__, "fields": given}


def assigner_from(values: Mapping[str, Any]) -> WindowAssigner:
    """Returns the assigner that ``assigner_values`` was given. KeyError or TypeError for any other values."""
    found: WindowAssigner = _ASSIGNERS[values["class"]](
        **{name: _value(given) for name, given in values["fields"].items()}
    )
    return found


def _plain(value: Any) -> Any:
    match value:
        case Duration(micros):
            return {"micros": micros}
        case Count(number):
            return {"count": number}
        case Enum():
            return {"enum": type(value).__name__, "name": value.name}
        case tuple():
            return {"tuple": [_plain(each) for each in value]}
    return value


def _value(plain: Any) -> Any:
    match plain:
        case {"micros": int(micros)}:
            return Duration(micros)
        case {"count": int(number)}:
            return Count(number)
        case {"enum": str(kind), "name": str(name)}:
            return _ENUMS[kind][name]
        case {"tuple": list(items)}:
            return tuple(_value(each) for each in items)
    return plain


# The rules by which the windows of a checkpoint's bolts fire in the last run, noted for readers without the topology.


TIMING = "timing"


@dataclass(frozen=True, kw_only=True)
class BoltTiming:
    """The rules of a windowed bolt by which its windows fire; durations in microseconds."""

    windows: str
    """The windows in words."""
    inputs: list[str]
    origins: dict[str, list[str]]
    """For each input that comes from windowed bolts, the names of these bolts."""
    event_time: bool
    key: list[str]
    length: int | None
    """Length of windows of time that begin at regular times; None for others."""
    slide: int | None
    offset: int
    """For windows at regular times: the shift of their ends from the multiples of the slide. For windows that are
    counted from the first clock of the run: the shift from that clock."""
    end_belongs: bool
    """True if a window includes an event at its end and not one at its start; False: the other way round."""
    past_end: int
    """Time by which the watermark must be past the end of a window that is due: the allowed lateness, and 1 where an
    event at the end belongs to the window."""
    delay: int
    """Time that the watermark stays behind the latest event."""
    follows_events: bool
    """True if each input, or partition, has a mark of its own; False: the watermark is made at ticks."""
    tick: int
    """The least time between two ticks; 0: at each batch."""
    per_key: bool
    greatest: bool
    """True if the watermark is the greatest of the marks; False: the least."""
    idle_timeout: int | None
    idle_waits_for_end: bool
    """True if the idle timeout runs from the end of a window, if that is after the last event."""
    partition_idle_timeout: int | None
    late_tolerance: int | None
    """Time that the watermark stays behind the estimated arrival time; None where it does not follow the clock."""
    trigger: bool
    """True if a trigger of keys fires the windows."""
    policies: list[str]
    """The names of its trigger and its eviction where policies of a user's own decide, "" for one that windbolt brings;
    else empty."""
    empty_windows: bool
    keys: list[list[str]]
    """For each input, the columns of its key; none where the bolt has none."""
    assigners: list[dict[str, Any]]
    """Notes on the assigners that form its windows (``assigners_note``); empty if the windows are runs of a queue."""
    from_first_clock: bool
    """True if aligned windows are counted from the first clock of the run."""
    forget_after: int | None = None
    """Time in microseconds for which its policies remember a key or a task without events; None for ever."""
    first_past_end: int | None = None
    """For windows that fire more than once: how far the watermark must be past the end of a window for its firing at
    the end, which is not the last one; None for others."""
    fires_once: bool = False
    """True if the first firing of such a window is the only one."""
    grouped: list[list[str]] | None = None
    """For each input, the columns by which it is grouped, where its bolt has no key but groups each input by fields."""
    imports: dict[str, str] | None = None
    """For each input that takes the watermarks of another input, and makes none by its own events, that other input."""
    decisive: list[list[str]] | None = None
    """For each input, the columns that decide where its events belong, and when: those of its key and of its grouping,
    and those that rules of time name; None where an earlier version has noted none."""
    marks: dict[str, dict[str, int | None]] | None = None
    """For each input, how its events move its watermark: ``count``: with one of so many events (0: only the source
    moves it); or ``span``: with an event that is so much later than the last that moved it; neither where ticks do; and
    ``delay`` as above. None where an earlier version has noted none."""
    by_arrival: bool = False
    """True if an event may be early or late by its arrival. Then its time does not move the watermark unchanged."""
    by_place: bool = False
    """True if its windows hold or count events by their places among all events of a task, and not by their times."""
    least_at_end: int = 1
    """Least number of events for which a window fires at its end, where it may fire more than once."""
    versions: str | None = None
    """The input whose events are versions: each ends as the next one of its key begins; None where none is."""
    by_event: bool = False
    """True if it has no windows, and is called for events as they come."""

    @property
    def bounds(self) -> Bounds:
        """The end of a window that belongs to it."""
        return Bounds.END if self.end_belongs else Bounds.START

    @property
    def columns_of_keys(self) -> list[list[str]]:
        """Per input: the columns of its key, or else those by which it is grouped; one list where all have the same."""
        return self.keys if any(self.keys) else self.grouped or [self.key]

    def formed_by(self, anchor: int | None) -> tuple[WindowAssigner, ...]:
        """Returns the assigners that form its windows; none if they are runs of a queue. ``anchor``: the first clock of
        the run, if windows are counted from it."""
        found = tuple(map(assigner_from, self.assigners))
        if not self.from_first_clock or anchor is None:
            return found
        return tuple(each.anchored(anchor, self.offset) for each in found)

    def regular(self, anchor: int | None) -> AlignedWindows | None:
        """Returns its windows of time that begin at regular times; None if there are no such windows. ``anchor``: as of
        ``formed_by``."""
        if self.length is None or self.slide is None:
            return None
        for each in self.formed_by(anchor):
            return each if isinstance(each, AlignedWindows) else None
        length, slide = Duration(self.length), Duration(self.slide)
        return AlignedWindows(length, slide, self.bounds, Duration(self.offset % self.slide))

    @staticmethod
    def of(node: WindowedNode) -> BoltTiming:
        """Returns the timing of a bolt."""
        settings = node.bolt.settings
        formed = bool(settings.kinds) or settings.key_trigger is not None or node.by_policies
        regular = None if formed else settings.slide
        length = settings.length
        arrival = settings.arrival
        silent = forget_after(node.eviction, node.trigger) if node.by_policies else None
        return BoltTiming(
            windows=_windows(node),
            inputs=list(node.streams),
            origins={
                name: [origin.bolt for origin in found]
                for name, found in zip(node.streams, node.origins, strict=True)
                if found
            },
            event_time=node.event_time,
            key=_key(node),
            length=length.micros if isinstance(length, Duration) and isinstance(regular, Duration) else None,
            slide=regular.micros if isinstance(regular, Duration) else None,
            offset=_offset(node),
            end_belongs=settings.bounds.holds(0, 1, 1),
            past_end=_past_end(node),
            delay=settings.delay if node.sequenced else node.lag.micros,
            follows_events=node.sequenced,
            tick=settings.watermark_interval.micros,
            per_key=settings.watermark_per_key,
            greatest=settings.watermark_combine is WatermarkCombiner.MAX,
            idle_timeout=None if settings.idle_timeout is None else settings.idle_timeout.micros,
            idle_waits_for_end=settings.idle_rule is IdleRule.AFTER_WINDOW_END,
            partition_idle_timeout=None
            if settings.partition_idle_timeout is None
            else settings.partition_idle_timeout.micros,
            late_tolerance=arrival.late.micros
            if settings.estimate_arrival and arrival is not None and arrival.late is not None
            else None,
            trigger=settings.key_trigger is not None,
            policies=[type(each).__name__ if is_own(each) else "" for each in (node.trigger, node.eviction)]
            if node.by_policies
            else [],
            forget_after=None if silent is None else silent.micros,
            empty_windows=settings.empty_windows_until is not None,
            keys=[list(key) for key in node.keys],
            assigners=[assigner_values(each) for each in node.assigners],
            from_first_clock=settings.anchor == START,
            grouped=_grouped(node),
            imports=None if settings.watermark_imports_beside else dict(settings.watermark_imports or {}),
            fires_once=settings.panes is not None and settings.panes.closes,
            first_past_end=int(node.closes_after_end) if settings.panes is not None and node.event_time else None,
            decisive=[list(columns) for columns in decisive_columns(node)],
            marks={name: _marks(node, name) for name in node.streams},
            by_arrival=arrival is not None,
            by_place=not node.holds_events and not has_windows_of_time(node),
            least_at_end=1 if settings.panes is None or settings.panes.at_end is None else settings.panes.at_end.value,
            versions=None if node.versions is None else node.streams[node.versions],
            by_event=node.without_windows,
        )


def note_timing(files: SealedFolder, topology: Topology) -> None:
    """Note the rules of this run, and its graph. Nothing depends on the note: one that is damaged is rewritten."""
    bolts = {name: asdict(BoltTiming.of(node)) for name, node in topology.windowed.items()}
    now = {"bolts": bolts, "graph": graph_values(topology)}
    known: Any = None
    with suppress(*UNREADABLE):
        known = files.read(TIMING)
    if known != now:
        files.write(TIMING, now)


def read_timing(files: SealedFolder) -> dict[str, BoltTiming] | None:
    """Returns the rules of the last run, by bolt; None where none has noted them in this form."""
    found: dict[str, dict[str, dict[str, Any]]] | None = files.read(TIMING)
    names = {each.name for each in fields(BoltTiming)}
    needed = {each.name for each in fields(BoltTiming) if each.default is MISSING}
    if found is None or any(not needed <= set(values) <= names for values in found["bolts"].values()):
        return None
    return {name: BoltTiming(**values) for name, values in found["bolts"].items()}


def read_graph(files: SealedFolder) -> tuple[list[Box], list[Arrow]]:
    """Returns the graph of the topology as noted by the last run; empty where that has noted none."""
    found: dict[str, Any] = files.read(TIMING) or {}
    return graph_from(found["graph"]) if "graph" in found else ([], [])


def _marks(node: WindowedNode, stream: str) -> dict[str, int | None]:
    if not node.sequenced:
        return {"count": None, "span": None, "delay": node.lag.micros}
    rules = node.bolt.settings.of_input(stream)
    every = rules.watermark_every
    return {
        "count": (0 if every == SOURCE_ONLY else every.value) if isinstance(every, Count) else None,
        "span": every.micros if isinstance(every, Duration) else None,
        "delay": rules.delay,
    }


def _windows(node: WindowedNode) -> str:
    settings = node.bolt.settings
    if node.without_windows:
        return "none: each event by itself, as it comes"
    if settings.key_trigger is not None:
        return key_trigger_in_words(settings.key_trigger)
    if settings.kinds:
        return "; ".join(kind.in_words() for kind in settings.kinds)
    return policies_in_words(node.eviction, node.trigger)


def _key(node: WindowedNode) -> list[str]:
    """Returns the columns of its key, or else those by which its first input is grouped."""
    if node.keys[0]:
        return list(node.keys[0])
    grouping = node.inputs[0].grouping
    return list(grouping.fields) if isinstance(grouping, FieldsGrouping) else []


def _grouped(node: WindowedNode) -> list[list[str]] | None:
    groupings = [each.grouping for each in node.inputs]
    fields_of = [list(each.fields) for each in groupings if isinstance(each, FieldsGrouping)]
    return fields_of if len(fields_of) == len(groupings) and not any(node.keys) else None


def _offset(node: WindowedNode) -> int:
    if node.assigners or not isinstance(node.trigger, TimeTriggerPolicy):
        return node.bolt.settings.offset.micros
    return node.trigger.offset.micros


def _past_end(node: WindowedNode) -> int:
    if node.assigners:
        return -int(node.closes_until(np.zeros(1, np.int64))[0])
    return node.due_at(0) + node.bolt.settings.allowed_lateness.micros


# Looking at a checkpoint from outside, while a run may go on: whether there is one, and by which rules its windows
# fire.


def checkpoint_at(folder: str) -> PairedCheckpoint:
    """Returns the checkpoint in a folder, to look at. CheckpointError where there is none."""
    halves = PairedCheckpoint(folder)
    if not halves.found:
        raise CheckpointError(
            f"{folder!r} is not a checkpoint",
            why="it has neither of the folders spark/ and windbolt/",
            do="give the folder that was passed to --checkpoint",
        )
    return halves


def known_timing(halves: PairedCheckpoint) -> dict[str, BoltTiming]:
    """Returns the rules of the last run on a checkpoint. CheckpointError where it does not have them."""
    known = read_timing(halves.files)
    if known is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not say by which rules its windows fire",
            why="no run of this version of windbolt has been on it",
            do="run the topology on it once",
        )
    return known


def the_only_bolt(halves: PairedCheckpoint, known: Mapping[str, BoltTiming]) -> str:
    """Returns the name of the only bolt with windows. ConfigError where there are several, or none."""
    if len(known) != 1:
        raise ConfigError(
            f"which bolt of checkpoint {halves.path!r} is meant?",
            why=f"it has {', '.join(known) or 'no windowed bolts'}",
            do="name one of them" if known else "look at one with windowed bolts",
        )
    return next(iter(known))


def timing_of(known: Mapping[str, BoltTiming], bolt: str, key: str | None) -> BoltTiming:
    """Returns the rules of a bolt. ConfigError where there is no such bolt, or it has no key and one is asked for."""
    if bolt not in known:
        raise ConfigError(
            f"there is no windowed bolt {bolt!r}{did_you_mean(bolt, known)}",
            why=f"the checkpoint has {', '.join(known) or 'none'}",
            do="name one of them",
        )
    if key is not None and not known[bolt].key:
        raise ConfigError(
            f"bolt {bolt!r} has no key", why="its windows hold the events of all keys", do="ask without a key"
        )
    return known[bolt]
