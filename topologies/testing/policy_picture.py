"""The picture of two runs that differ: events down the page, the windows of each run beside them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from topologies.testing.policy_runs import Cut, Given, Seen, Window
from windowing.time.timestamps import show

_MOST_EVENTS, _MOST_WINDOWS, _WIDTH = 40, 8, 60
_HELD, _NOT, _CUT = "●", "·", "─"


def picture(given: Given, first: Seen, second: Seen, cut: Cut, sides: tuple[str, str]) -> str:
    """Events as lines, windows as columns (a, b, ...), those of both runs side by side.

    ``cut`` is that of the second run: a line is drawn where a batch ends. ``sides``: how each run went.
    """
    pairs = _pairs(first.windows, second.windows)
    shown = _most_telling(pairs)
    letters = [chr(ord("a") + number % 26) for number in range(len(shown))]
    width = max(3 * len(shown) + 1, len(sides[0]) + 1, 12)
    labels = _labels(given)
    left = max(map(len, labels), default=0)
    lines = [f"{'':{left}}  │ {sides[0]:{width}}│ {sides[1]}"]
    heads = "".join(f"{letter:3}" for letter in letters)
    lines.append(f"{'event':{left}}  │ {heads:{width}}│ {heads}".rstrip())
    places = _places(given, pairs)
    for number, place in enumerate(places):
        before = places[number - 1] + 1 if number else 0
        if any(before <= end <= place for end in cut.ends) and number:
            lines.append(f"{'':{left}}  │ {'':{width}}│ {_CUT * max(3 * len(shown), len(sides[1]))}")
        cells = [_cells(place, [pair[side] for pair in shown]) for side in (0, 1)]
        mark = "" if cells[0] == cells[1] else "  <- differs"
        lines.append(f"{labels[place]:{left}}  │ {cells[0]:{width}}│ {cells[1]}{mark}".rstrip())
    lines += [_window_line(letter, *pair) for letter, pair in zip(letters, shown, strict=True)]
    if len(pairs) > len(shown):
        lines.append(f"and {len(pairs) - len(shown)} windows more")
    if dict(first.accounts) != dict(second.accounts):
        lines.append(f"events: {_accounts(first)} | {_accounts(second)}")
    for side, seen in zip(sides, (first, second), strict=True):
        if seen.error:
            lines.append(f"{side}: {seen.error}")
    return "\n".join(lines)


Pair = tuple[Window | None, Window | None]


def _pairs(first: Sequence[Window], second: Sequence[Window]) -> list[Pair]:
    """The windows of both runs, those that mean each other together."""
    found: list[Pair] = []
    ours_by_name, theirs_by_name = ([(each.key, each.end) for each in side] for side in (first, second))
    matched = SequenceMatcher(None, ours_by_name, theirs_by_name, autojunk=False)
    for kind, low, high, start, stop in matched.get_opcodes():
        ours, theirs = list(first[low:high]), list(second[start:stop])
        if kind == "equal":
            found += zip(ours, theirs, strict=True)
        else:
            found += [(each, None) for each in ours]
            found += [(None, each) for each in theirs]
    return found


def _most_telling(pairs: Sequence[Pair]) -> list[Pair]:
    """Few windows: those that differ first, in order."""
    different = [pair for pair in pairs if pair[0] != pair[1]]
    chosen = (different + [pair for pair in pairs if pair[0] == pair[1]])[:_MOST_WINDOWS]
    return [pair for pair in pairs if any(pair is each for each in chosen)]


def _places(given: Given, pairs: Sequence[Pair]) -> list[int]:
    """The events that are shown: all, or those around the first that differ."""
    if len(given) <= _MOST_EVENTS:
        return list(range(len(given)))
    held = [[set(() if each is None else each.events) for each in pair] for pair in pairs]
    telling = sorted(set().union(*(first ^ second for first, second in held)))[: _MOST_EVENTS // 2]
    near = {place for each in telling or [0] for place in (each - 1, each, each + 1) if 0 <= place < len(given)}
    return sorted(near)[:_MOST_EVENTS]


def _cells(place: int, windows: Sequence[Window | None]) -> str:
    marks = (" " if each is None else _HELD if place in each.events else _NOT for each in windows)
    return "".join(f"{mark:3}" for mark in marks)


def _labels(given: Given) -> list[str]:
    """Each event: its number from 1, its time, and its values; without the date where all have the same."""
    times = ["" if time is None else show(time) for time in given.times]
    same = len({time[:11] for time in times if time}) == 1
    shown = [time[11:].removesuffix("Z") if same else time for time in times]
    found = []
    for place, row in enumerate(given.rows.to_pylist()):
        values = ", ".join(f"{name} {value}" for name, value in row.items() if not _is_time(value, given.times[place]))
        text = f"{place + 1:>2}  {shown[place]}  {values}"
        found.append(text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…")
    return found


def _is_time(value: object, time: int | None) -> bool:
    return hasattr(value, "tzinfo") or (time is not None and value == time // 1_000 and type(value) is int)


def _window_line(letter: str, first: Window | None, second: Window | None) -> str:
    one = first or second
    assert one is not None
    key = "" if one.key == "None" else f", key {one.key}"
    where = ""
    if first is None or second is None:
        where = f": only on the {'right' if first is None else 'left'}"
    elif set(first.events) == set(second.events) and first != second:
        where = f": in another order, or from another start, {first.start} and {second.start}"
    return f"  window {letter} ends {show(one.end)}{key}{where}"


def _accounts(seen: Seen) -> str:
    return ", ".join(f"{number} {name}" for name, number in seen.accounts) or "none"
