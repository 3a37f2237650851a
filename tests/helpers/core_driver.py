"""The pure core in plain Python: a WaterMarkEventGenerator and a WindowManager, driven by a scenario.

No engine, no topology, no files: this is how somebody would use the two classes on their own. ``answer`` has the form
of ``tests.oracles.window_oracle.answer``. How the events between two ticks are handed over is the
caller's choice (``cut``).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from manager import QueueState, WaterMarkEventGenerator, WindowManager
from manager.watermarks import WatermarkState
from policies import EvictionPolicy, TriggerPolicy, choose_policies
from policies.storm import in_gap
from tests.helpers.lateness import Lateness
from tests.oracles.window_oracle import microseconds, milliseconds
from windowing import Duration, Events, TupleWindow, WindowedBolt
from windowing.timestamps import FOREVER

Json = dict[str, Any]
T = TypeVar("T")
Cut = Callable[[list[Any]], Iterable[list[Any]]]


def one_by_one(events: list[T]) -> list[list[T]]:
    """Every event in a batch of its own."""
    return [[event] for event in events]


def all_together(events: list[T]) -> list[list[T]]:
    """All events in one batch."""
    return [events] if events else []


def in_pieces(seed: int) -> Cut:
    """Batches of random sizes."""
    chance = random.Random(seed)

    def cut(events: list[T]) -> list[list[T]]:
        pieces: list[list[T]] = []
        for event in events:
            if not pieces or chance.random() < 0.4:
                pieces.append([])
            pieces[-1].append(event)
        return pieces

    return cut


def configured(settings: Json) -> WindowedBolt:
    """The bolt that the settings of a scenario describe."""
    length = settings["length"]
    bolt = WindowedBolt()
    bolt = (
        bolt.with_tumbling_window(length)
        if settings.get("tumbling")
        else bolt.with_window(length, settings.get("sliding"))
    )
    if "bounds" in settings:
        bolt = bolt.with_alignment(bounds=settings["bounds"])
    if "timestamp_field" in settings:
        bolt = bolt.with_timestamp_field(settings["timestamp_field"]).with_lag(settings.get("lag", "0ms"))
    if "offset" in settings:
        bolt = bolt.with_alignment(offset=settings["offset"])
    return bolt


@dataclass(frozen=True)
class Arrived:
    """An event at the door."""

    id: str
    time: int
    stream: str


Policies = Callable[[WindowedBolt, bool], tuple[EvictionPolicy, TriggerPolicy]]


def built_in(bolt: WindowedBolt, event_time: bool) -> tuple[EvictionPolicy, TriggerPolicy]:
    """The policies that the settings come to."""
    return choose_policies(bolt.settings, event_time=event_time)


def answer(scenario: Json, cut: Cut = all_together, policies: Policies = built_in) -> Json:
    """The whole answer of the core to a scenario of a bare bolt; AccountsError if the accounts ever fail to add up."""
    run = _Run(scenario, cut, policies)
    for step in scenario["steps"]:
        run.take(step)
        run.check()
    return run.answer()


class _Run:
    def __init__(self, scenario: Json, cut: Cut, policies: Policies) -> None:
        settings = scenario["bolt"]
        self.cut = cut
        self.streams: Sequence[str] = scenario.get("streams", ["s1"])
        self.field = settings.get("timestamp_field")
        bolt = configured(settings)
        self.policies = policies(bolt, self.field is not None)
        self.lateness = Lateness(*self.policies)
        self.manager = WindowManager(*self.policies, self.streams)
        self.lag = bolt.settings.lag or Duration(0)
        self.watermarks: list[int | None] = []
        self.generator = WaterMarkEventGenerator(self.streams, self.lag)
        self.clock = 0
        self.waiting: list[Arrived] = []
        self.windows: list[Json] = []
        self.late: list[str] = []
        slide = settings.get("sliding", settings["length"] if settings.get("tumbling") else 1)
        self.has_ends = self.field is not None or not (isinstance(settings["length"], int) and isinstance(slide, int))

    def take(self, step: Json) -> None:
        match step:
            case {"event": event, **rest}:
                if "clock" in rest:
                    self.move_clock(microseconds(rest["clock"]))
                time = self.clock if self.field is None else microseconds(event[self.field])
                self.waiting.append(Arrived(event["id"], time, rest.get("stream", self.streams[0])))
            case {"tick": _}:
                self.flush()
                watermark = self.generator.tick() if self.field is not None else None
                self.watermarks.append(watermark)
                if watermark is not None:
                    self.advance(watermark, watermark)
            case {"clock": time}:
                self.move_clock(microseconds(time))
            case {"crash": True}:
                self.crash()
            case {"close": True}:
                self.flush()
                self.show(self.manager.advance(FOREVER))

    def move_clock(self, time: int) -> None:
        if self.field is None:
            self.flush()
            self.clock = time
            self.advance(time, None)

    def flush(self) -> None:
        """Hand over what has come since the last tick, cut into batches."""
        for batch in self.cut(self.waiting):
            self.deliver(batch)
            if self.field is None:
                self.advance(self.clock, None)
            self.check()
        self.waiting = []

    def deliver(self, batch: list[Arrived]) -> None:
        times = np.array([event.time for event in batch], np.int64)
        codes = np.array([self.streams.index(event.stream) for event in batch], np.int8)
        late = np.zeros(len(batch), np.bool_)
        if self.field is not None:
            late = self.lateness.late(times, self.generator.watermark)
            for code in set(codes.tolist()):
                self.generator.observe({self.streams[code]: int(times[codes == code].max())})
        gap = in_gap(*self.policies, times)
        out = late if gap is None else late | gap
        self.count("received", codes)
        self.count("late", codes[late])
        self.count("unwindowed", codes[out & ~late])
        self.late.extend(event.id for event, is_late in zip(batch, late, strict=True) if is_late)
        payload = pa.RecordBatch.from_pydict({"id": [event.id for event in batch]})
        self.manager.add(Events(times, payload, codes if len(self.streams) > 1 else None).take(np.flatnonzero(~out)))

    def advance(self, clock: int, watermark: int | None) -> None:
        self.show(self.manager.advance(clock if self.field is None else watermark))

    def count(self, account: str, codes: np.ndarray) -> None:
        self.manager.accounts.add(account, np.bincount(codes, minlength=len(self.streams)))

    def crash(self) -> None:
        """Go on with new objects that know what JSON and the events alone can tell."""
        old = self.manager
        state = QueueState(**json.loads(json.dumps(asdict(old.snapshot()))))
        marks = WatermarkState.from_json(json.loads(json.dumps(self.generator.state.to_json())))
        settled = old.queue.settled_view().pieces(0, old.queue.settled_count)
        self.manager = WindowManager(*self.policies, self.streams, state=state)
        self.manager.accounts.merge(old.accounts.to_json())
        self.manager.restore([*settled, *old.queue.waiting_events])
        self.manager.resettle()
        self.generator = WaterMarkEventGenerator(self.streams, self.lag, state=marks)

    def show(self, windows: Iterable[TupleWindow]) -> None:
        for window in windows:
            start = window.start_timestamp
            self.windows.append(
                {
                    "start": None if start is None else milliseconds(start),
                    "end": milliseconds(window.end_timestamp) if self.has_ends else None,
                    "events": window.table.column("id").to_pylist(),
                    "new": window.new.column("id").to_pylist(),
                    "expired": window.expired.column("id").to_pylist(),
                }
            )

    def check(self) -> None:
        self.manager.accounts.check(self.manager.pending, "the core")

    def answer(self) -> Json:
        self.flush()
        pending = [name for part in self.manager.pending_events() for name in part.payload.column("id").to_pylist()]
        counts = self.manager.accounts.totals(sum(self.manager.pending))
        assert (counts.pop("adjusted"), counts.pop("truncated")) == (0, 0)
        assert counts["pending"] == len(pending)
        return {
            "windows": self.windows,
            "late": self.late,
            "watermarks": [None if time is None else milliseconds(time) for time in self.watermarks],
            "pending": pending,
            "counts": counts,
        }
