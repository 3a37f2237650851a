"""What holds the watermark of a bolt, in sentences: inputs and partitions, and behind other bolts what holds those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from manager.storage.manifest import BoltState, Manifest
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.why_waiting.held_watermark import holders_of, own_marks_of
from topologies.why_waiting.idle_rules import idle_rules, named
from topologies.why_waiting.why_answer import Holder
from windowing.time.durations import Duration
from windowing.time.timestamps import show


@dataclass(frozen=True)
class Holding:
    """The bolts of a checkpoint: their rules and, after each of the kept batches, their states."""

    timings: Mapping[str, BoltTiming]
    kept: Sequence[Manifest]

    def sentences(self, bolt: str, end: int | None, needed: int | None) -> Iterator[str]:
        """What holds the watermark of a bolt, and what its rules of idleness will do. ``end`` of the window that waits;
        ``needed``: the watermark at which it fires."""
        timing, state, holders = self.timings[bolt], self._state(bolt), self.of(bolt)
        lagging = [mark for mark in own_marks_of(timing, state).values() if mark is None or mark < (needed or mark)]
        for holder in holders:
            told = _about(holder, timing)
            if needed is not None and holder.watermark is not None and not timing.origins.get(holder.input):
                told += _what_moves(holder, timing, state, needed, alone=len(lagging) < 2)
            yield told
            yield from self._behind(timing, holder)
        yield from map(_upper, _imports(timing))
        idle = state.watermark.sources.idle
        if idle:
            left_out = ", ".join(repr(name.replace("\t", "/")) for name in idle)
            yield f"Idle, and therefore not waited for: {left_out}."
        if any(self._has_idle_rule(name) for name in self._upstream(bolt)):
            yield from idle_rules(timing, state, holders, end, needed)
        else:
            yield (
                "No rule of idleness is set: only later events move the watermark, or the end of the input, which "
                "closes all windows (a run without --keep-open and --every)."
            )

    def of(self, bolt: str) -> tuple[Holder, ...]:
        """What holds the watermark of a bolt."""
        return tuple(holders_of(bolt, self.timings[bolt], self.kept))

    def _state(self, bolt: str) -> BoltState:
        return self.kept[-1].bolts[bolt]

    def _behind(self, timing: BoltTiming, holder: Holder) -> Iterator[str]:
        """Of an input that comes from other bolts: which of them is furthest behind, and what holds that."""
        origins = [name for name in timing.origins.get(holder.input, ()) if name in self.timings]
        if not origins:
            return
        marks = {name: self._state(name).watermark.current for name in origins}
        name = min(origins, key=lambda each: (marks[each] is not None, marks[each] or 0))
        at, of = marks[name], self.timings[name]
        yield (
            f"{_upper(named(holder))} is what bolt {name!r} emits, and time there follows the watermark of "
            f"{name!r}, which {'does not exist yet' if at is None else f'is at {show(at)}'}."
        )
        if not of.event_time or of.per_key:
            yield (
                f"Bolt {name!r} follows the clock: its watermark moves with each batch."
                if not of.event_time
                else f"In bolt {name!r} each key has a watermark of its own, and the least of them counts here."
            )
            return
        holders = self.of(name)
        for each in holders:
            yield f"For {name!r}: {_about(each, of)}"
            yield from self._behind(of, each)
        yield from (f"For {name!r}: {_upper(words)}" for words in _imports(of))
        if self._has_idle_rule(name):
            yield from (f"For {name!r}: {words}" for words in idle_rules(of, self._state(name), holders, None, None))

    def _upstream(self, bolt: str) -> list[str]:
        """A bolt, and all bolts before it."""
        found = [bolt]
        for name in found:
            timing, takers = self.timings[name], self.timings[name].imports or {}
            before = [origin for taker, bolts in timing.origins.items() if taker not in takers for origin in bolts]
            found += [origin for origin in before if origin in self.timings and origin not in found]
        return found

    def _has_idle_rule(self, bolt: str) -> bool:
        timing = self.timings[bolt]
        rules = (timing.partition_idle_timeout, timing.idle_timeout, timing.late_tolerance)
        return not timing.event_time or any(rule is not None for rule in rules)


def _imports(timing: BoltTiming) -> Iterator[str]:
    for taker, giver in (timing.imports or {}).items():
        yield f"input {taker!r} takes the watermarks of {giver!r}; its own events move nothing."


def _about(holder: Holder, timing: BoltTiming) -> str:
    since = ""
    if holder.since is not None:
        words = "since its last event, by the clock at" if holder.since_exactly else "at least since"
        since = f", {words} {show(holder.since)}"
    name = named(holder)
    if holder.watermark is None:
        text = f"{name} holds it: nothing has come from there{since}."
    elif timing.greatest:
        text = f"{name} is furthest ahead, at {show(holder.watermark)}{since}."
    else:
        text = f"{name} holds it, at {show(holder.watermark)}{since}."
    return _upper(text)


def _what_moves(holder: Holder, timing: BoltTiming, state: BoltState, needed: int, *, alone: bool) -> str:
    """Which event would move the watermark to where it is needed. ``alone``: no other input is behind that."""
    if timing.marks is None:
        return ""
    rules, source = timing.marks[holder.input], state.watermark.sources.marks.get(holder.source)
    count, span, at = rules["count"], rules["span"], needed + (rules["delay"] or 0)
    if span is not None:
        if source is None or source.since is None:
            return ""
        at = max(at, source.since + span)
    unless = ", unless it is early or late by its arrival" if timing.by_arrival else ""
    others = "" if alone or timing.greatest else ", as at each input that is not as far"
    if count == 0:
        return f" Only watermarks that the source sends move it: one at {show(needed)} or later is needed{others}."
    missing = 1 if count is None or source is None else count - source.counted % count
    if missing > 1:
        return (
            f" One of {count} events there moves the watermark: {missing} more are needed{others}, the last of them at "
            f"{show(at)} or later{unless}."
        )
    tick = timing.tick if count is None and span is None else 0
    if tick:
        unless += f"; the watermark follows with the next tick (every {Duration(tick)})"
    where = "there or at another input" if timing.greatest else "there"
    does = f"is needed{others}" if others else "would do"
    return f" An event {where} at {show(at)} or later {does}{unless}."


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
