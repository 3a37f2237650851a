"""What happened at each moment of a run, in sentences that need no knowledge of stream processing."""

from __future__ import annotations

from collections.abc import Sequence

from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.moments import RunMoment, known_ids
from topologies.scenarios.run.scenario_answer import AnswerWindow, BoltTrace
from topologies.scenarios.terminal_drawing.axis_times import AxisTimes
from topologies.scenarios.terminal_drawing.window_grid import WindowGrid
from windowing.settings.rules import LateBy
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER

_MANY = 12
"""Maximum number of ids named; of more, the first and the last are named."""

_PLAINLY = {
    "crash": "Crash: what is in memory is lost. The run recovers from its last commit, and the source sends again.",
    "close": "The streams end: windows that are open fire now, where the rules say so.",
    "end": "End of the run.",
}


class Stories:
    """Tells the moments of one bolt."""

    def __init__(self, moments: Sequence[RunMoment], trace: BoltTrace, show: AxisTimes, first_clock: int) -> None:
        self.moments, self.trace, self.show = moments, trace, show
        self.grid = WindowGrid.of(trace.settings, first_clock) if trace.event_time else None
        self.rows = {moment.window: moment for moment in moments if moment.window is not None}
        self.holding: dict[str, list[int]] = {}
        for number, window in trace.windows.items():
            for name in known_ids(window["events"]):
                self.holding.setdefault(name, []).append(number)

    def of(self, moment: RunMoment) -> str:
        """What happened at a moment."""
        match moment.kind:
            case "event":
                return self._event(moment)
            case "window":
                return self._window(moment)
            case "tick":
                return self._watermark(moment, "Tick: the interval of the watermark has passed.")
            case "clock":
                return self._watermark(moment, f"The clock moves to {self._time(moment.clock)}.")
        return _PLAINLY[moment.kind]

    # -- events

    def _event(self, moment: RunMoment) -> str:
        came = f" at {self._time(moment.clock)}" if moment.clock is not None else ""
        arrived = f", as event {moment.arrival}" if moment.arrival is not None else ""
        if moment.fate is Fate.ELSEWHERE:
            return f"{moment.event} came{came}{arrived}. It does not come to this bolt."
        if moment.fate is Fate.WATERMARK:
            return f"{moment.event} is not an event: the source says that time has reached {self._time(moment.own)}."
        when = self._when(moment)
        time = f"{moment.event} has the time {self._time(moment.own)}. " if moment.own is not None else ""
        if not self.trace.event_time:
            return f"{moment.event} came{came}{arrived}. {self._fate(moment)}"
        return f"{time}{'It' if time else moment.event} came{came}{arrived}, {when}. {self._fate(moment)}"

    def _when(self, moment: RunMoment) -> str:
        known = moment.mark
        if known is None:
            return "before there was a watermark"
        return f"when the watermark was {self._time(known)}"

    def _fate(self, moment: RunMoment) -> str:
        told = {
            Fate.EARLY: f"It is too early: {moment.reason}.",
            Fate.DUPLICATE: "A message with its id had been taken in already, so it does not count again.",
            Fate.INVALID: f"The bolt cannot use it: {moment.reason or 'no time'}.",
            Fate.NOWHERE: "It was taken in, but no window that fired holds it.",
        }
        if moment.fate in told:
            return told[moment.fate]
        if moment.fate in (Fate.LATE, Fate.DROPPED):
            return self._late(moment)
        adjusted = f"It was given the time {self._time(moment.at)}. " if moment.fate is Fate.ADJUSTED else ""
        return f"{adjusted}{self._windows(moment)}"

    def _windows(self, moment: RunMoment) -> str:
        numbers = self.holding.get(moment.event, [])
        if moment.fate is Fate.PENDING or moment.event in self.trace.pending:
            waits = "It waits: a window that may hold it had not fired when the run ended."
            return f"{self._are_in(numbers)} {waits}" if numbers else waits
        if not numbers:
            return "It was taken in; which windows hold it is unknown, as no column id reaches the bolt."
        return self._are_in(numbers)

    def _are_in(self, numbers: Sequence[int]) -> str:
        shown = [f"#{number} {self.extent(self.trace.windows[number])}" for number in numbers[:4]]
        more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
        return f"It is in window{'s' if len(numbers) > 1 else ''} {', '.join(shown)}{more}."

    def _late(self, moment: RunMoment) -> str:
        by = f" by {Duration(moment.late_by)}" if moment.late_by else ""
        dropped = " The bolt is told to drop such events." if moment.fate is Fate.DROPPED else ""
        stream = self.trace.settings.late_stream
        went = f" It went to the stream {stream!r}." if stream and not dropped else ""
        return f"It was late{by}: {self._why_late(moment)}.{dropped}{went}"

    def _why_late(self, moment: RunMoment) -> str:
        own = [] if self.grid is None or moment.own is None else self.grid.holding(moment.own)
        told = [self._was(window, moment) for window in own[-3:]]
        passed = f"{moment.reason or 'the watermark had passed its time'}"
        if not told:
            return passed
        still = self.trace.settings.late_by is LateBy.WATERMARK and any("open" in each for each in told)
        rule = ", and this bolt turns away all that is behind the watermark" if still else ""
        return f"{passed}. {' '.join(told)}{rule}".rstrip(".")

    def _was(self, window: tuple[int, int], moment: RunMoment) -> str:
        """What had become of a window when a late event came that would be in it."""
        extent = self._between(*window)
        for number, fired in self.trace.windows.items():
            if (fired["start"], fired["end"]) == window and self.rows[number].number < moment.number:
                reached = self.rows[number].watermark
                when = f", when the watermark reached {self._time(reached)}" if reached else ""
                return f"Its window {extent} had fired (#{number}){when}."
        if moment.mark is not None and window[1] > moment.mark:
            return f"Its window {extent} was still open"
        return f"Its window {extent} was over, without an event."

    # -- windows and watermarks

    def _window(self, moment: RunMoment) -> str:
        assert moment.window is not None
        window = self.trace.windows[moment.window]
        pane = window.get("pane")
        which = ""
        if pane:
            last = ", the last" if pane["last"] else ""
            which = f", for the {_ordinal(pane['index'] + 1)} time ({pane['timing'].replace('_', ' ')}{last})"
        whose = "".join(f", {name} {window[name]}" for name in ("key", "kind", "task") if name in window)
        head = f"Window #{moment.window} {self.extent(window)}{whose} fires{which}{self._why(window, moment)}."
        return f"{head} {self._contents(window)}"

    def _why(self, window: AnswerWindow, moment: RunMoment) -> str:
        if "by" in window:
            return f", by its trigger ({window['by']})"
        if moment.watermark == FOREVER:
            return ", since the streams have ended"
        if window["due"] == FOREVER or (window["end"] is None and not self.trace.event_time):
            return ""
        if window["by_clock"]:
            return f", since the clock has reached {self._time(window['due'])}" if moment.clock is not None else ""
        return f", since the watermark is {self._time(moment.watermark)}" if moment.watermark is not None else ""

    def _contents(self, window: AnswerWindow) -> str:
        events, new = known_ids(window["events"]), known_ids(window["new"])
        if not events:
            return _unnamed(window)
        again = [name for name in events if name not in set(new)]
        told = f"It holds {len(events)} event{'s' if len(events) > 1 else ''}: {_few(events)}."
        if window["new"] is not None and again and new:
            told += f" New in it: {_few(new)}."
        if window["expired"]:
            told += f" No longer in it: {_few(known_ids(window['expired']))}."
        return told

    def _watermark(self, moment: RunMoment, head: str) -> str:
        if not self.trace.event_time:
            return head
        before = self.moments[moment.number - 1].watermark if moment.number else None
        if moment.watermark is None:
            return f"{head} There is no watermark yet."
        if moment.watermark == before:
            return f"{head} The watermark stays at {self._time(before)}."
        since = f"from {self._time(before)} " if before is not None else ""
        return f"{head} The watermark moves {since}to {self._time(moment.watermark)}{self._held(moment)}."

    def _held(self, moment: RunMoment) -> str:
        """Which input holds the watermark back, or where it comes from."""
        inputs = next((batch.inputs for batch in self.trace.batches if batch.batch == moment.batch), {})
        lag = self.trace.settings.lag
        if len(inputs) > 1:
            least = min(inputs, key=lambda name: inputs[name])
            return f": the least of {len(inputs)} inputs, of which {source_name(least)} is furthest behind"
        return f": the latest time seen, less the lag of {lag}" if lag is not None and lag.micros else ""

    def extent(self, window: AnswerWindow) -> str:
        """A window by its bounds."""
        start, end = window["start"], window["end"]
        opening, closing = window["brackets"]
        until = "" if end is None else "+inf" if end == FOREVER else self._time(end)
        if end is None:
            count = len(window["events"] or ())
            return f"of {count} event{'' if count == 1 else 's'}"
        if start is None:
            return f"..{until}{closing}"
        return f"{opening}{self._time(start)}..{until}{closing}"

    def _between(self, start: int, end: int) -> str:
        assert self.grid is not None
        return f"{self.grid.bounds.value[0]}{self._time(start)}..{self._time(end)}{self.grid.bounds.value[-1]}"

    def _time(self, at: int | None) -> str:
        return "the end of time" if at == FOREVER else "none" if at is None else self.show(at)


def source_name(source: str) -> str:
    """The name of an input, or of a partition of one, for people."""
    return source.replace("\t", " partition ").removeprefix("events.")


def _unnamed(window: AnswerWindow) -> str:
    """What is in a window whose events have no ids."""
    count = None if window["events"] is None else len(window["events"])
    if count == 0:
        return "It holds no event."
    many = "events" if count is None else f"{count} event{'' if count == 1 else 's'}"
    return f"It holds {many}; which ones is unknown, as no column id reaches the bolt."


def _few(names: Sequence[str]) -> str:
    shown = names if len(names) <= _MANY else [*names[: _MANY - 2], "…", names[-1]]
    return ", ".join(shown)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
