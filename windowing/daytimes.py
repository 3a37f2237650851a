"""Times of day in a zone: how they are written, and when each comes next, at both switches of daylight saving too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from windowing.calls import checked_on_failure
from windowing.errors import ConfigError
from windowing.timestamps import EARLIEST, LATEST, moment_of, to_datetime, zone_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The letters of Java's DateTimeFormatter that tell a time of day, and texts read by them.


_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", re.DOTALL)
_DAY_HOURS, _MICROS = 24, {"m": 60_000_000, "s": 1_000_000}
_DO = (
    "use H, HH, k, kk, K, KK, h, hh, a, m, mm, s, ss, S to SSSSSSSSS, X to XXXXX, x to xxxxx, Z to ZZZZZ or VV, "
    "and put other texts between quotes: 'T'"
)

# What the numbers of each letter are called, the lowest and the highest; an example.
_NUMBERS = {
    "H": ("hours", 0, 24, "11"),
    "k": ("hours", 0, 24, "11"),
    "K": ("hours", 0, 11, "11"),
    "h": ("hours", 1, 12, "11"),
    "m": ("minutes", 0, 59, "05"),
    "s": ("seconds", 0, 59, "00"),
}
# Offsets by the number of letters.
_OFFSETS = (
    (r"[+-]\d\d(?:\d\d)?", "+03"),
    (r"[+-]\d{4}", "+0300"),
    (r"[+-]\d\d:\d\d", "+03:00"),
    (r"[+-]\d{4}(?:\d\d)?", "+0300"),
    (r"[+-]\d\d:\d\d(?::\d\d)?", "+03:00"),
)
_ZONE = r"((?:GMT|UTC|UT)?[+-]\d\d(?::?\d\d(?::?\d\d)?)?|[A-Za-z][A-Za-z0-9~/._+-]+|Z)"


@dataclass(frozen=True)
class PatternPart:
    """A piece of a pattern: its regular expression, with a group for each letter, and its description for users."""

    regex: str
    says: str
    example: str
    letters: tuple[str, ...] = ()
    """The letter of each group; any offset is an X."""


@dataclass(frozen=True)
class TimeText:
    """A way to write a time of day as text."""

    pattern: str
    parts: tuple[PatternPart, ...]

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The letter of each group of the regex."""
        return tuple(letter for part in self.parts for letter in part.letters)

    @cached_property
    def example(self) -> str:
        """Returns a text that fits, in quotes."""
        return repr("".join(part.example for part in self.parts))

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile("".join(part.regex for part in self.parts), re.ASCII)

    def read(self, text: str) -> tuple[int, str | None]:
        """Returns the microseconds after midnight, and the zone if the text names one; raises ConfigError if it does
        not fit."""
        match = self._regex.fullmatch(text)
        if match is None:
            raise self._refused(text, self._misfit(text))
        found: dict[str, str] = {}
        for letter, value in zip(self.letters, match.groups(), strict=True):
            if value is not None and found.setdefault(letter, value) != value:
                raise self._refused(text, f"it says both {found[letter]} and {value}")
        if missing := _missing(found.keys()):
            raise self._refused(text, missing)
        return self._micros(text, found), found.get("V") or _zone(found.get("X"))

    def _micros(self, text: str, found: Mapping[str, str]) -> int:
        numbers = {letter: int(value) for letter, value in found.items() if letter in _NUMBERS}
        rest = sum(numbers.get(letter, 0) * micros for letter, micros in _MICROS.items())
        rest += int(found.get("S", "")[:6].ljust(6, "0"))
        for letter, number in numbers.items():
            name, low, high, _ = _NUMBERS[letter]
            if not low <= number <= high or (letter == "H" and number == _DAY_HOURS and rest):
                most = 23 if letter == "H" else high
                raise self._refused(text, f"{name} ({letter}) are {low} to {most}, found {number}")
        hours = _hours(numbers, found.get("a"))
        if len(hours) > 1:
            raise self._refused(text, "its hours do not agree")
        return hours.pop() * 3_600_000_000 + rest

    def _misfit(self, text: str) -> str:
        """Describes a mismatch: the expected part, the text before it, and the text found instead."""
        regex, end = "", 0
        for part in self.parts:
            regex += part.regex
            match = re.match(regex, text, re.ASCII)
            if match is None:
                return _expected(part.says, text, end)
            end = match.end()
        return _expected("the end", text, end)

    def _refused(self, text: str, why: str) -> ConfigError:
        return ConfigError(
            f"{text!r:.80} does not fit the pattern {self.pattern!r}", why=why, do=f"write it like {self.example}"
        )


def time_text(pattern: str) -> TimeText:
    """Returns a pattern as it reads texts; raises ConfigError for letters that are not known, or that tell no time of
    day."""
    tokens = (match.group() for match in _TOKEN.finditer(pattern))
    text = TimeText(pattern, tuple(_parts(pattern, tokens)))
    if missing := _missing(frozenset(text.letters)):
        raise _unreadable(pattern, missing)
    return text


def _parts(pattern: str, tokens: Iterator[str], depth: int = 0) -> Iterator[PatternPart]:
    for token in tokens:
        if token == "[":
            inner = list(_parts(pattern, tokens, depth + 1))
            regex, example = "".join(part.regex for part in inner), "".join(part.example for part in inner)
            letters = tuple(letter for part in inner for letter in part.letters)
            yield PatternPart(f"(?:{regex})?", "more", example, letters)
        elif token == "]" and depth:
            return
        elif token.isascii() and token.isalpha():
            yield _part(pattern, token[0], len(token))
        elif token in ("'", "]", "{", "}", "#"):
            raise _unreadable(pattern, f"{token} has no meaning there, or is without its other half")
        else:
            literal = "'" if token == "''" else token[1:-1].replace("''", "'") if len(token) > 1 else token
            yield PatternPart(re.escape(literal), repr(literal), literal)


def _part(pattern: str, letter: str, count: int) -> PatternPart:
    """Returns the part of a pattern for a letter that is repeated ``count`` times."""
    match letter, count:
        case (("H" | "k" | "K" | "h" | "m" | "s"), (1 | 2)):
            name, _, _, example = _NUMBERS[letter]
            digits, some = (r"(\d{2})", "two digits") if count == 2 else (r"(\d{1,18})", "some digits")
            return PatternPart(digits, f"{name} of {some}", example, (letter,))
        case "S", number if number <= 9:
            return PatternPart(rf"(\d{{{count}}})", f"a fraction of {count} digits", "5".ljust(count, "0"), ("S",))
        case "a", 1:
            return PatternPart("([AP]M|[ap]m)", "AM or PM", "AM", ("a",))
        case (("X" | "x" | "Z"), number) if number <= 5:
            return _offset_part(letter, count)
        case "V", 2:
            return PatternPart(_ZONE, "a zone like Europe/Berlin", "Europe/Berlin", ("V",))
    raise _unreadable(pattern, f"{letter * count} is none of the letters of a time of day that are known here")


def _offset_part(letter: str, count: int) -> PatternPart:
    if letter == "Z" and count <= 3:
        regex, example = _OFFSETS[1]
    elif letter == "Z" and count == 4:
        regex, example = f"GMT(?:{_OFFSETS[4][0]})?", "GMT+03:00"
    else:
        regex, example = _OFFSETS[count - 1]
        regex = regex if letter == "x" else f"Z|{regex}"
    return PatternPart(f"({regex})", f"an offset like {example}", example, ("X",))


def _unreadable(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"{pattern!r:.80} is not a pattern of a time of day", why=why, do=_DO)


def _missing(letters: Set[str]) -> str:
    """Describes why letters of a format cannot give a time of day; "" if they can."""
    if not letters & {"H", "k"}:
        if not letters & {"K", "h"}:
            return "it has no hours"
        if "a" not in letters:
            return "its hours do not say whether AM or PM (a)"
    if "s" in letters and "m" not in letters:
        return "it has seconds without minutes"
    return "it has a fraction without seconds" if "S" in letters and "s" not in letters else ""


def _hours(numbers: Mapping[str, int], half: str | None) -> set[int]:
    """Returns the hour of the day by each letter for it; more than one if they contradict each other."""
    hours = {numbers[letter] % _DAY_HOURS for letter in ("H", "k") if letter in numbers}
    if half is not None:
        noon = 12 if half in ("PM", "pm") else 0
        hours |= {hour % 12 + noon for hour in hours}
        hours |= {numbers[letter] % 12 + noon for letter in ("K", "h") if letter in numbers}
    return hours


def _zone(offset: str | None) -> str | None:
    """Returns the zone of an offset; an offset of zero is Z."""
    if offset is None:
        return None
    return offset.removeprefix("GMT") if offset.strip("GMT+-0:") else "Z"


def _expected(what: str, text: str, end: int) -> str:
    place = f" after {text[:end]!r:.60}" if end else ""
    return f"expected {what}{place}, found {text[end:]!r:.40}" if end < len(text) else f"expected {what}{place}"


# Times of day in a zone, and when each comes next: once a day, at both switches of daylight saving too.


_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000


@checked_on_failure
@dataclass(frozen=True)
class DayTime:
    """A time of day: microseconds after midnight by the clocks of a zone.

    It comes once a day, whatever the clocks do. A time that the clocks skip is taken with the offset before the change,
    as in java.time: 02:30 is 03:30 of summer time. Of a time that the clocks show twice, only the first counts. If a
    zone has skipped a whole day, its time comes together with the time of the day after.

    Raises ConfigError for a time that is not within a day, and for an unknown time zone.
    """

    micros: int
    zone: str = "UTC"
    """A name such as ``Europe/Berlin``, or an offset such as ``+03:00`` or ``Z``."""

    def __post_init__(self) -> None:
        if not isinstance(self.micros, int) or isinstance(self.micros, bool) or not 0 <= self.micros < _DAY:
            raise ConfigError(
                f"{self.micros!r} is not a time of day",
                why="it is a number of microseconds after midnight, below 24 hours",
                do="give 0 for midnight, hours(18).micros for 18:00, minutes(11 * 60 + 5).micros for 11:05",
            )
        if not isinstance(self.zone, str):
            raise ConfigError(f"zone={self.zone!r} is not a text", do="use a name like 'Europe/Berlin' or '+03:00'")
        zone_of(self.zone)

    def __str__(self) -> str:
        seconds, micros = divmod(self.micros, _SECOND)
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction} {self.zone}"

    def next(self, after: int) -> int:
        """Returns when it comes next, strictly after a time of the years 1 to 9999; both in microseconds since the
        epoch."""
        day = after // _DAY
        offset = _steady(self.zone, day)
        if offset is not None:
            return after - (after + offset - self.micros) % _DAY + _DAY
        return next(moment for moment in _around(self, day) if moment > after)


def next_of(time: DayTime, afters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns when a time of day comes next, strictly after each of many times; all in microseconds since the epoch."""
    days, places = np.unique(afters // _DAY, return_inverse=True)
    offsets = [_steady(time.zone, day) for day in days.tolist()]
    shifts = np.array([offset or 0 for offset in offsets], dtype=np.int64)[places]
    result: NDArray[np.int64] = afters - (afters + shifts - time.micros) % _DAY + _DAY
    for place, (day, offset) in enumerate(zip(days.tolist(), offsets, strict=True)):
        if offset is None:
            moments, there = np.array(_around(time, day)), places == place
            result[there] = moments[np.searchsorted(moments, afters[there], side="right")]
    return result


@dataclass(frozen=True)
class DayTimePattern:
    """Reads times of day that are written as a pattern of Java's DateTimeFormatter says (UH-20).

    ``HH:mm:ssXXX`` reads ``11:05:00+03:00``. Known are the letters H, k, K, h (with a), m, s, S, the offsets X, x, Z
    and the zone VV; ``'quoted'`` texts, ``[optional]`` sections and other characters stand for themselves. As in Java,
    a doubled letter takes two digits, 24:00 is midnight, and what is left out at the end is zero. Fractions finer than
    a microsecond are cut off.

    ``zone``: holds if the text names none (UH-21). A zone in the text goes before an offset beside it.

    Raises ConfigError for a letter that is not known, a pattern that tells no time of day, and an unknown zone.
    """

    pattern: str
    zone: str = "UTC"
    _text: TimeText = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise ConfigError(f"pattern={self.pattern!r} is not a text", do="write it like 'HH:mm:ss'")
        object.__setattr__(self, "_text", time_text(self.pattern))
        DayTime(0, self.zone)

    def read(self, text: str) -> DayTime:
        """Returns the time of day of a text; raises ConfigError for one that does not fit the pattern, or is not a
        time."""
        if not isinstance(text, str):
            raise ConfigError(
                f"{text!r:.60} is not a text",
                why="a time of day is read from text",
                do=f"write it like {self._text.example}",
            )
        return _read(self, text)


@lru_cache(maxsize=1 << 14)
def _read(pattern: DayTimePattern, text: str) -> DayTime:
    micros, zone = pattern._text.read(text)
    try:
        return DayTime(micros, zone or pattern.zone)
    except ConfigError as error:
        raise ConfigError(f"{text!r:.80} is not a time of day: {error.what}", why=error.why, do=error.do) from error


# ---- the clocks of a zone


@lru_cache(maxsize=1 << 12)
def _steady(zone: str, day: int) -> int | None:
    """Returns the offset of a zone on a day (UTC), or None if its clocks are set within a day of it, before or
    after."""
    clocks = zone_of(zone)
    # A datetime cannot show what is beyond these years; the clocks no longer change there.
    day = min(max(day, EARLIEST // _DAY + 3), LATEST // _DAY - 4)
    hours = range((day - 1) * _DAY, (day + 3) * _DAY + 1, _HOUR)
    offset, *others = {_offset(clocks, hour) for hour in hours}
    return None if others else offset


@lru_cache(maxsize=1 << 12)
def _around(time: DayTime, day: int) -> tuple[int, ...]:
    """Returns when a time of day comes around a day (UTC): one after any moment of that day is among them."""
    zone = zone_of(time.zone)
    return tuple(sorted({moment_of(zone, local * _DAY + time.micros) for local in range(day - 1, day + 3)}))


def _offset(clocks: tzinfo, moment: int) -> int:
    return _micros(to_datetime(moment).astimezone(clocks).utcoffset())


def _micros(length: timedelta | None) -> int:
    return (length or timedelta()) // timedelta(microseconds=1)
