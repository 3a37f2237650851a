"""The parts of a run's page: its bolts, sinks, graph and remarks, and its history."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import SegmentStore
from manager.watermarks import input_of, shown_partition
from policies.watermarks import NONE
from topologies.checkpoints.blocking_inputs import Question, WhyAnswer, blocking_inputs_of, marks_of
from topologies.checkpoints.topology_fit import RunNote
from topologies.checkpoints.why import Explanation, OtherWindows
from topologies.engine.commit import batch_of_file
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.html import Arrow, Box, lay_out
from topologies.io.paths import shown_path
from topologies.run.summary import short_duration
from windowing.reprs import one_line
from windowing.timestamps import EARLIEST, LATEST, from_datetime

# A recorded run, as a part of its checkpoint's page.


def run_view(note: RunNote) -> dict[str, Any]:
    """Returns a run as plain JSON. Without a recorded end, the run may be in progress or dead."""
    return {**asdict(note), "run": note.run[:8], "how": note.how or "no end", "repeats": 0}


# The interface between a page and its run, which is in progress in this process or stored in a checkpoint.


class RunPage(Protocol):
    """A run as its page sees it. Methods are called from any thread."""

    @property
    def name(self) -> str:
        """The name of the topology."""

    def state(self, page_version: str, after: int) -> dict[str, Any]:
        """Returns everything to show, as plain JSON, times in microseconds. ``page_version``: the version that the page
        has; if it is still the present one, returns only values that change between two batches. ``after``: the number
        of the page's last point."""

    def why(self, bolt: str, key: str | None, window: str | None) -> WhyAnswer:
        """Explains why a window has not fired. Raises ConfigError for an unknown bolt, key or window."""


# The history of events: a point for each batch, thinned out as a run progresses.


MOST_POINTS = 600
"""Most points that are kept."""
_LATEST_POINTS = 120
"""Number of the latest points; all of these are kept."""

Point = dict[str, Any]


class Points:
    """The points of a run, the oldest first; each has an increasing number."""

    def __init__(self) -> None:
        self._old: list[Point] = []
        self._latest: deque[Point] = deque()
        self._every = 1
        """Old points are kept if their numbers are multiples of this."""
        self._next = 0

    def add(self, point: Point) -> None:
        """Adds the point of a batch; if there are too many points, drops some of the older ones."""
        self._latest.append({"n": self._next, **point})
        self._next += 1
        if len(self._latest) > _LATEST_POINTS:
            self._old += self._every_nth([self._latest.popleft()])
        if len(self._old) > MOST_POINTS - _LATEST_POINTS:
            self._every *= 2
            self._old = self._every_nth(self._old)

    def _every_nth(self, points: Sequence[Point]) -> list[Point]:
        return [point for point in points if point["n"] % self._every == 0]

    def __iter__(self) -> Iterator[Point]:
        return iter([*self._old, *self._latest])


def point_of(manifest: Manifest, bolts: Mapping[str, BoltRules], at: int | None) -> Point:
    """Returns the point of a batch: totals so far, times in microseconds. ``at``: when it was committed."""
    return {
        "batch": manifest.batch,
        "closing": manifest.closing,
        "clock": manifest.clock,
        "at": manifest.clock if at is None else at,
        "bolts": {
            name: {
                "accounts": _without_zeros(manifest.bolts[name].accounts.totals(sum(manifest.bolts[name].pending))),
                "fired": manifest.bolts[name].totals.fired,
                "watermark": displayed_time(manifest.bolts[name].watermark.current) if rules.event_time else None,
            }
            for name, rules in bolts.items()
            if name in manifest.bolts
        },
        "spouts": {name: counts.get("rows", 0) for name, counts in manifest.spouts.items()},
    }


def _without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


# Facts that operators should see at a glance, as sentences: inputs that hold back time, and rejected events.


RECENT = 60_000_000
"""Microseconds that count as recent."""
_LEAST_LEAD = 60_000_000
"""Microseconds by which other inputs must be ahead of an input before a remark is shown, or the length of a window if
that is longer."""

_LEAST_STANDSTILL = 10_000_000
"""Microseconds without progress after which a remark about an input is shown."""
_EVENTS_PER_REJECTED = 20
"""A warning is shown if more than one in this many events is rejected."""

Severity = Literal["bad", "warn", "note"]


def page_remark(severity: Severity, text: str, bolt: str | None = None) -> dict[str, Any]:
    """Returns a remark as plain JSON; ``bolt``: the bolt that it concerns."""
    return {"severity": severity, "text": text, "bolt": bolt}


def remarks_of(
    bolts: Mapping[str, Mapping[str, Any]], points: Sequence[Point], clock: int | None
) -> list[dict[str, Any]]:
    """Returns the remarks about the bolts, worst first; ``clock``: of the last batch."""
    found: list[dict[str, Any]] = []
    recent = [point for point in points if points and point["at"] >= points[-1]["at"] - RECENT]
    for name, bolt in bolts.items():
        found += _time_remarks(name, bolt, clock)
    for name in bolts:
        found += _account_remarks(name, recent, points)
    order = ("bad", "warn", "note")
    return sorted(found, key=lambda each: order.index(each["severity"]))


def _time_remarks(name: str, bolt: Mapping[str, Any], clock: int | None) -> Iterator[dict[str, Any]]:
    """Yields remarks about an input or partition that holds back the time of a bolt, while others are ahead."""
    if bolt["ended"]:
        return
    marks = [mark for mark in bolt["marks"] if not mark["idle"]]
    silent = [mark for mark in marks if mark["at"] is None]
    idle = len(bolt["marks"]) - len(marks)
    if silent and len(silent) < len(marks) and bolt["watermark"] is None:
        yield page_remark(
            "warn", f"{_inputs_in_words(silent)} has delivered nothing, so no window of {name!r} can fire yet.", name
        )
    mark_times = [mark["at"] for mark in marks if mark["at"] is not None]
    lead = max(mark_times, default=0) - min(mark_times, default=0)
    if lead > max(_LEAST_LEAD, bolt["length"] or 0) and not silent:
        holding = [mark for mark in marks if mark["holds"]]
        since = holding[0]["since"] if len(holding) == 1 else None
        stood = 0 if since is None or clock is None else clock - since
        stands = f", and has not moved for {short_duration(stood)}" if stood >= _LEAST_STANDSTILL else ""
        behind = short_duration(lead)
        yield page_remark(
            "warn",
            f"{_inputs_in_words(holding)} holds the time of {name!r}: {behind} behind the furthest{stands}.",
            name,
        )
    if idle:
        words = "1 input or partition is" if idle == 1 else f"{idle:,} inputs or partitions are"
        yield page_remark("note", f"{words} idle, and not waited for by {name!r}.", name)


def _inputs_in_words(marks: Sequence[Mapping[str, Any]]) -> str:
    first = marks[0]
    text = f"Input {first['input']!r}" + (f", partition {first['partition']!r}" if first["partition"] else "")
    return one_line(text) + ("" if len(marks) == 1 else f" (and {len(marks) - 1:,} more)")


def _account_remarks(name: str, recent: Sequence[Point], points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """Yields warnings about events rejected in the last minute, with their number."""
    if not recent:
        return
    now = recent[-1]["bolts"].get(name, {}).get("accounts", {})
    earlier = [point for point in points if point["n"] < recent[0]["n"]]
    before = earlier[-1]["bolts"].get(name, {}).get("accounts", {}) if earlier else {}
    received = now.get("received", 0) - before.get("received", 0)
    for accounts, words in ((("late", "dropped"), "came too late"), (("invalid",), "could not be read or used")):
        lost = sum(now.get(each, 0) - before.get(each, 0) for each in accounts)
        if lost > 0 and received > 0:
            severity: Severity = "warn" if lost * _EVENTS_PER_REJECTED > received else "note"
            share = f"{lost / received:.1%}" if lost * 1000 >= received else "less than 0.1%"
            yield page_remark(
                severity, f"{lost:,} of the last {received:,} events of {name!r} {words} ({share}).", name
            )


# The files that sinks have published in local folders.


LATEST_FILES = 5
"""Number of a sink's files that are named: the latest."""
_LEAST_PAUSE_SECONDS, _PAUSE_FACTOR = 5.0, 200
"""Seconds until a folder is listed again, and the least such pause as a multiple of the last listing's duration."""

STALE_PARTS_SUFFIX = "+"
"""Suffix of a state's version if a part is from an earlier version; a page with this version gets the whole state
again."""


class ShownSink(NamedTuple):
    """A sink as pages show it."""

    name: str
    kind: str
    """Description of its kind."""
    folder: str | None
    """Folder for its files; None for other sinks."""


@dataclass
class _Listing:
    listed_at: float
    listing_seconds: float
    version: object
    files: dict[str, Any]


@dataclass
class SinkFolders:
    """Lists the folders of sinks from time to time."""

    sinks: Sequence[ShownSink]
    _listings: dict[str, _Listing] = field(default_factory=dict)

    def listings(self, version: object) -> tuple[list[dict[str, Any]], bool]:
        """Returns each sink as plain JSON, and True if all listings belong to ``version``, which changes when there may
        be new files."""
        shown = [
            {"name": sink.name, "kind": sink.kind, "folder": sink.folder, "files": self._files(sink, version)}
            for sink in self.sinks
        ]
        return shown, all(listing.version == version for listing in self._listings.values())

    def _files(self, sink: ShownSink, version: object) -> dict[str, Any] | None:
        """Returns the number of files, and the latest; None if they are not listed."""
        if sink.folder is None or "://" in shown_path(sink.folder):
            return None
        last, now = self._listings.get(sink.name), time.monotonic()
        if last is None or (
            last.version != version
            and now - last.listed_at > max(_LEAST_PAUSE_SECONDS, _PAUSE_FACTOR * last.listing_seconds)
        ):
            files = _list_files(shown_path(sink.folder))
            last = self._listings[sink.name] = _Listing(now, time.monotonic() - now, version, files)
        return last.files


def _list_files(folder: str) -> dict[str, Any]:
    names: list[str] = []
    with suppress(OSError):  # no folder before the first file
        names = sorted(name for name in os.listdir(folder) if batch_of_file(name) is not None)
    latest = []
    for name in reversed(names[-LATEST_FILES:]):
        with suppress(OSError):
            latest.append({"name": name, "bytes": os.stat(f"{folder}/{name}").st_size})
    return {"count": len(names), "latest": latest}


# Positions of a topology's cards on its page, and of the points of the arrows between them.


WIDTH = 204
"""Width of a card in pixels; all are equal, so that numbers in them may change."""
_TALL_CARD, _LOW_CARD = 104, 72
"""Pixels: the height of a windowed bolt's card, and that of others."""
_CARD_GAP, _LAYER_GAP = 28, 46
"""Pixels between two cards of a layer, and between two layers."""


def layout_as_json(boxes: Sequence[Box], arrows: Sequence[Arrow], windowed: Collection[str]) -> dict[str, Any]:
    """Returns the graph as plain JSON: cards with their corners, arrows with their points, in pixels."""
    names = {box.name for box in boxes}
    labels: dict[tuple[str, str], list[str]] = {}
    for each in arrows:
        if each.source in names and each.target in names:
            labels.setdefault((each.source, each.target), []).append(each.label)
    layers = lay_out({box.name: float(WIDTH) for box in boxes}, list(labels), _CARD_GAP)
    heights = {box.name: _TALL_CARD if box.name in windowed else _LOW_CARD for box in boxes}
    tops = [0.0]
    for layer in range(1 + max(layers.layer.values(), default=-1)):
        tops.append(tops[-1] + max(heights[name] for name in names if layers.layer[name] == layer) + _LAYER_GAP)
    cards = [
        {
            "name": box.name,
            "kind": "windowed" if box.name in windowed else box.kind,
            "facts": list(box.facts),
            "x": round(layers.centres[box.name] - WIDTH / 2, 1),
            "y": tops[layers.layer[box.name]],
            "width": WIDTH,
            "height": heights[box.name],
        }
        for box in boxes
    ]
    arrow_views = []
    for (source, target), texts in labels.items():
        layer_of_source = layers.layer[source]
        points = [[layers.centres[source], tops[layer_of_source] + heights[source]]]
        for number, x in enumerate(layers.bends[source, target], layer_of_source + 1):
            points += [[x, tops[number]], [x, tops[number + 1] - _LAYER_GAP]]
        points.append([layers.centres[target], tops[layers.layer[target]]])
        label = ", ".join(filter(None, dict.fromkeys(texts)))
        arrow_views.append({"source": source, "target": target, "label": label, "points": points})
    return {"cards": cards, "arrows": arrow_views, "width": layers.width, "height": max(tops[-1] - _LAYER_GAP, 0.0)}


# A windowed bolt on a page: its time, its accounts and its open windows, from the state after a batch.


MOST_MARKS = 200
"""Most inputs and partitions that are shown: the inputs furthest behind, with the number of the others."""
MOST_WINDOWS = 2_000
"""Most windows that are examined to find open ones."""
MOST_ROWS = 200_000
"""Most events for which the events of each open window are counted, since they have to be read."""
MOST_UNITS = 2_000
"""Most keys for which the states of policies are examined."""
SHOWN_UNITS = 6
"""Most keys whose states of policies are shown: those with the latest events."""


def bolt_view(name: str, rules: BoltRules, manifests: Sequence[Manifest], since: Mapping[str, int]) -> dict[str, Any]:
    """Returns a bolt as plain JSON; times in microseconds. ``manifests``: the kept ones, in order. ``since``: by input
    or partition, the clock from which on it has not moved, if known."""
    state, clock = manifests[-1].bolts[name], manifests[-1].clock
    current = state.watermark.current if rules.event_time else None
    watermark = displayed_time(current)
    marks = _marks(name, rules, manifests, since) if rules.event_time and not rules.per_key else []
    return {
        "windows": rules.windows,
        "event_time": rules.event_time,
        "by_event": rules.by_event,
        "per_key": rules.per_key,
        "key": rules.key,
        "watermark": watermark,
        "ended": manifests[-1].closing and not sum(state.pending),
        "delay": None if watermark is None or clock is None else clock - watermark,
        "accounts": state.accounts.totals(sum(state.pending)),
        "streams": state.accounts.all_by_stream(state.pending),
        "fired": state.totals.fired,
        "suppressed": state.totals.suppressed,
        "emitted": state.totals.emitted,
        "counters": state.totals.counters,
        "length": rules.length,
        "marks": marks[:MOST_MARKS],
        "more_marks": max(len(marks) - MOST_MARKS, 0),
    }


def displayed_time(time: int | None) -> int | None:
    """Returns the time for display; None without a time, and for the end of time."""
    return None if time is None or not EARLIEST <= time <= LATEST else time


def _marks(
    name: str, rules: BoltRules, manifests: Sequence[Manifest], since: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Returns the inputs and partitions: those that have delivered nothing, then those furthest behind; idle ones
    last."""
    state = manifests[-1].bolts[name]
    sources = state.watermark.sources
    holding = {each.source: each for each in blocking_inputs_of(name, rules, manifests)}
    idle = {source: sources.marks[source].mark for source in sources.idle if source in sources.marks}
    rows = []
    for source, mark in [*marks_of(rules, state).items(), *idle.items()]:
        stream = input_of(source)
        holder = holding.get(source)
        stands = sources.last_event_clocks.get(source, since.get(source, None if holder is None else holder.since))
        rows.append(
            {
                "input": stream,
                "partition": shown_partition(source),
                "at": displayed_time(None if mark is None or mark <= NONE else mark),
                "since": stands,
                "since_exactly": source in sources.last_event_clocks,
                "idle": source in idle,
                "holds": holder is not None and source not in idle,
                "origins": rules.origins.get(stream, []),
            }
        )
    return sorted(rows, key=lambda row: (row["idle"], row["at"] is not None, row["at"] or 0))


def open_view(
    name: str, rules: BoltRules, manifests: Sequence[Manifest], store: SegmentStore, first_output: int | None
) -> dict[str, Any]:
    """Returns the open windows of a bolt as plain JSON. ``windows``: (end, events) of windows at regular times, None if
    they are not counted. ``waiting``: the windows of keys that a trigger fires. ``next``: when the next window is due,
    or the least end of windows whose end depends on their events. ``policies``: the events that users' policies have
    tracked, and their states."""
    state = manifests[-1].bolts[name]
    rows = sum(task.refs.needed for task in state.tasks)
    regular = rules.slide is not None and rules.length is not None and rules.key_trigger is None
    view: dict[str, Any] = {"windows": None, "past_end": rules.past_end, "rows": rows, **_other_windows(state, rules)}
    explained = Explanation(Question(name, None, None), {name: rules}, manifests, store, first_output)
    if regular and not rows:
        view["windows"] = []
    elif regular and rows <= MOST_ROWS:
        view["windows"] = explained.waiting_windows(MOST_WINDOWS)
    view["policies"] = _policies(explained) if rules.policies else None
    return view


def _policies(explained: Explanation) -> dict[str, Any]:
    """Describes the events that users' policies have tracked, and the states of the latest keys or tasks. ``more``: the
    number of the others."""
    refs = [task.windows.get("units") for task in explained.state.tasks]
    count = sum(ref.rows for ref in refs if ref is not None)
    trigger, eviction = explained.rules.policies
    view: dict[str, Any] = {"trigger": trigger, "eviction": eviction, "told": [], "units": [], "more": count}
    if count > MOST_UNITS:
        return view
    windows = OtherWindows(explained)
    units = windows.units()
    view["told"] = list(windows.units_in_words(units))
    latest = sorted(units, key=lambda row: from_datetime(row["time"]) if row["time"] else 0, reverse=True)
    times = ("time", "fired", "next_moment", "forgotten_at")
    for row in latest[:SHOWN_UNITS] if len(units) > 1 else []:
        row_view = {name: None if row[name] is None else displayed_time(from_datetime(row[name])) for name in times}
        name = row["key"] if any(explained.rules.keys) else f"task {row['task']}"
        row_view |= {each: row[each] for each in ("events", "events_since", "trigger", "eviction")}
        view["units"].append({"name": name, **row_view})
    view["more"] = max(len(units) - SHOWN_UNITS, 0) if len(units) > 1 else 0
    return view


def _other_windows(state: BoltState, rules: BoltRules) -> dict[str, Any]:
    due = [task.next_due for task in state.tasks if task.next_due is not None]
    return {
        "waiting": sum(task.windows.get("open_windows") for task in state.tasks) if rules.key_trigger else None,
        "next": None if rules.policies else displayed_time(min(due, default=None)),
        "by_trigger": rules.key_trigger is not None,
    }
