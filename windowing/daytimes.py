"""Times of day in a time zone: reading them from text, and the next moment of each, across clock changes."""

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


# Patterns of times of day, with the letters of Java's DateTimeFormatter.


_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", re.DOTALL)
_DAY_HOURS, _MICROS_OF_LETTER = 24, {"m": 60_000_000, "s": 1_000_000}
_LETTERS_ADVICE = (
    "use H, HH, k, kk, K, KK, h, hh, a, m, mm, s, ss, S to SSSSSSSSS, X to XXXXX, x to xxxxx, Z to ZZZZZ or VV, "
    "and put other texts between quotes: 'T'"
)

# For each letter: the name of its numbers, the least and the greatest number, an example.
_NUMBERS = {
    "H": ("hours", 0, 24, "11"),
    "k": ("hours", 0, 24, "11"),
    "K": ("hours", 0, 11, "11"),
    "h": ("hours", 1, 12, "11"),
    "m": ("minutes", 0, 59, "05"),
    "s": ("seconds", 0, 59, "00"),
}
# Regular expressions and examples of offsets, for one to five letters.
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
    """A piece of a pattern."""

    regex: str
    """A regular expression for texts of this piece, with a group for each letter."""
    description: str
    example: str
    letters: tuple[str, ...] = ()
    """The letter of each group of the regular expression; X for all offsets."""


@dataclass(frozen=True)
class TimeText:
    """A parsed pattern, which reads times of day from text."""

    pattern: str
    parts: tuple[PatternPart, ...]

    @cached_property
    def letters(self) -> tuple[str, ...]:
        """The letter of each group of the whole regular expression."""
        return tuple(letter for part in self.parts for letter in part.letters)

    @cached_property
    def example(self) -> str:
        """A text that fits the pattern, in quotes."""
        return repr("".join(part.example for part in self.parts))

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile("".join(part.regex for part in self.parts), re.ASCII)

    def read(self, text: str) -> tuple[int, str | None]:
        """Returns the microseconds after midnight, and the zone if the text names one; raises ConfigError for a text
        that does not fit."""
        match = self._regex.fullmatch(text)
        if match is None:
            raise self._text_error(text, self._misfit(text))
        values: dict[str, str] = {}
        for letter, value in zip(self.letters, match.groups(), strict=True):
            if value is not None and values.setdefault(letter, value) != value:
                raise self._text_error(text, f"it says both {values[letter]} and {value}")
        if missing := _what_is_missing(values.keys()):
            raise self._text_error(text, missing)
        return self._micros(text, values), values.get("V") or _zone(values.get("X"))

    def _micros(self, text: str, values: Mapping[str, str]) -> int:
        numbers = {letter: int(value) for letter, value in values.items() if letter in _NUMBERS}
        within_hour = sum(numbers.get(letter, 0) * micros for letter, micros in _MICROS_OF_LETTER.items())
        within_hour += int(values.get("S", "")[:6].ljust(6, "0"))
        for letter, number in numbers.items():
            name, low, high, _ = _NUMBERS[letter]
            if not low <= number <= high or (letter == "H" and number == _DAY_HOURS and within_hour):
                most = 23 if letter == "H" else high
                raise self._text_error(text, f"{name} ({letter}) are {low} to {most}, found {number}")
        hours = _hours(numbers, values.get("a"))
        if len(hours) > 1:
            raise self._text_error(text, "its hours do not agree")
        return hours.pop() * 3_600_000_000 + within_hour

    def _misfit(self, text: str) -> str:
        """Describe where a text does not fit: the expected piece, the text before it, and the text in its place."""
        regex, end = "", 0
        for part in self.parts:
            regex += part.regex
            match = re.match(regex, text, re.ASCII)
            if match is None:
                return _expected(part.description, text, end)
            end = match.end()
        return _expected("the end", text, end)

    def _text_error(self, text: str, why: str) -> ConfigError:
        return ConfigError(
            f"{text!r:.80} does not fit the pattern {self.pattern!r}", why=why, do=f"write it like {self.example}"
        )


def parse_pattern(pattern: str) -> TimeText:
    """Parse a pattern. Raises ConfigError for unknown letters, and for letters that do not give a time of day."""
    tokens = (match.group() for match in _TOKEN.finditer(pattern))
    text = TimeText(pattern, tuple(_parts(pattern, tokens)))
    if missing := _what_is_missing(frozenset(text.letters)):
        raise _pattern_error(pattern, missing)
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
            raise _pattern_error(pattern, f"{token} has no meaning there, or is without its other half")
        else:
            literal = "'" if token == "''" else token[1:-1].replace("''", "'") if len(token) > 1 else token
            yield PatternPart(re.escape(literal), repr(literal), literal)


def _part(pattern: str, letter: str, count: int) -> PatternPart:
    """Returns the piece of a pattern for a letter that is repeated ``count`` times."""
    match letter, count:
        case (("H" | "k" | "K" | "h" | "m" | "s"), (1 | 2)):
            name, _, _, example = _NUMBERS[letter]
            digits, how_many = (r"(\d{2})", "two digits") if count == 2 else (r"(\d{1,18})", "some digits")
            return PatternPart(digits, f"{name} of {how_many}", example, (letter,))
        case "S", number if number <= 9:
            return PatternPart(rf"(\d{{{count}}})", f"a fraction of {count} digits", "5".ljust(count, "0"), ("S",))
        case "a", 1:
            return PatternPart("([AP]M|[ap]m)", "AM or PM", "AM", ("a",))
        case (("X" | "x" | "Z"), number) if number <= 5:
            return _offset_part(letter, count)
        case "V", 2:
            return PatternPart(_ZONE, "a zone like Europe/Berlin", "Europe/Berlin", ("V",))
    raise _pattern_error(pattern, f"{letter * count} is none of the letters of a time of day that are known here")


def _offset_part(letter: str, count: int) -> PatternPart:
    if letter == "Z" and count <= 3:
        regex, example = _OFFSETS[1]
    elif letter == "Z" and count == 4:
        regex, example = f"GMT(?:{_OFFSETS[4][0]})?", "GMT+03:00"
    else:
        regex, example = _OFFSETS[count - 1]
        regex = regex if letter == "x" else f"Z|{regex}"
    return PatternPart(f"({regex})", f"an offset like {example}", example, ("X",))


def _pattern_error(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"{pattern!r:.80} is not a pattern of a time of day", why=why, do=_LETTERS_ADVICE)


def _what_is_missing(letters: Set[str]) -> str:
    """Describe why the letters of a pattern do not give a time of day; "" if they do."""
    if not letters & {"H", "k"}:
        if not letters & {"K", "h"}:
            return "it has no hours"
        if "a" not in letters:
            return "its hours do not say whether AM or PM (a)"
    if "s" in letters and "m" not in letters:
        return "it has seconds without minutes"
    return "it has a fraction without seconds" if "S" in letters and "s" not in letters else ""


def _hours(numbers: Mapping[str, int], am_or_pm: str | None) -> set[int]:
    """Returns the different hours of the day that the letters give; more than one if these contradict each other."""
    hours = {numbers[letter] % _DAY_HOURS for letter in ("H", "k") if letter in numbers}
    if am_or_pm is not None:
        from_noon = 12 if am_or_pm in ("PM", "pm") else 0
        hours |= {hour % 12 + from_noon for hour in hours}
        hours |= {numbers[letter] % 12 + from_noon for letter in ("K", "h") if letter in numbers}
    return hours


def _zone(offset: str | None) -> str | None:
    """Returns the zone of an offset; an offset of zero is Z."""
    if offset is None:
        return None
    return offset.removeprefix("GMT") if offset.strip("GMT+-0:") else "Z"


def _expected(what: str, text: str, end: int) -> str:
    after = f" after {text[:end]!r:.60}" if end else ""
    return f"expected {what}{after}, found {text[end:]!r:.40}" if end < len(text) else f"expected {what}{after}"


# The next moment of a time of day.


_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000


@checked_on_failure
@dataclass(frozen=True)
class DayTime:
    """A time of day: microseconds after midnight by the clocks of a zone.

    It comes once a day, even if the clocks change. A time that the clocks skip is taken with the offset before the
    change, as in java.time: 02:30 is then 03:30 of summer time. If the clocks show a time twice, only the first counts.
    If a zone has skipped a whole day, the time of that day falls on the time of the following day.

    Raises ConfigError for a time of 24 hours or more, and for an unknown time zone.
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
        """Returns the next moment of this time of day, strictly after ``after``; both in microseconds since the epoch,
        of the years 1 to 9999."""
        day = after // _DAY
        offset = _constant_offset(self.zone, day)
        if offset is not None:
            return after - (after + offset - self.micros) % _DAY + _DAY
        return next(moment for moment in _moments_around(self, day) if moment > after)


def next_moments(time: DayTime, afters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the next moment of a time of day, strictly after each of many moments; all in microseconds since the
    epoch."""
    days, day_numbers = np.unique(afters // _DAY, return_inverse=True)
    offsets = [_constant_offset(time.zone, day) for day in days.tolist()]
    offset_by_row = np.array([offset or 0 for offset in offsets], dtype=np.int64)[day_numbers]
    result: NDArray[np.int64] = afters - (afters + offset_by_row - time.micros) % _DAY + _DAY
    for day_number, (day, offset) in enumerate(zip(days.tolist(), offsets, strict=True)):
        if offset is None:
            moments, on_day = np.array(_moments_around(time, day)), day_numbers == day_number
            result[on_day] = moments[np.searchsorted(moments, afters[on_day], side="right")]
    return result


@dataclass(frozen=True)
class DayTimePattern:
    """Reads times of day from texts by a pattern of Java's DateTimeFormatter (UH-20).

    ``HH:mm:ssXXX`` reads ``11:05:00+03:00``. The letters are H, k, K, h (with a), m, s, S, the offsets X, x, Z and the
    zone VV. A pattern may have ``'quoted'`` texts and ``[optional]`` sections; other characters stand for themselves.
    As in Java, a doubled letter takes two digits, 24:00 is midnight, and minutes and seconds that the pattern lacks are
    zero. Fractions are rounded down to microseconds.

    ``zone``: the zone of texts that name none (UH-21). If a text has both a zone and an offset, the zone counts.

    Raises ConfigError for an unknown letter, for a pattern that does not give a time of day, and for an unknown zone.
    """

    pattern: str
    zone: str = "UTC"
    _text: TimeText = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise ConfigError(f"pattern={self.pattern!r} is not a text", do="write it like 'HH:mm:ss'")
        object.__setattr__(self, "_text", parse_pattern(self.pattern))
        DayTime(0, self.zone)

    def read(self, text: str) -> DayTime:
        """Returns the time of day in a text; raises ConfigError for a text that does not fit the pattern."""
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
def _constant_offset(zone: str, day: int) -> int | None:
    """Returns the offset of a zone on a day (UTC) in microseconds; None if its clocks change on that day or within a
    day before or after it."""
    clocks = zone_of(zone)
    # A datetime ends with these years; the clocks no longer change there.
    day = min(max(day, EARLIEST // _DAY + 3), LATEST // _DAY - 4)
    hours = range((day - 1) * _DAY, (day + 3) * _DAY + 1, _HOUR)
    offset, *other_offsets = {_offset(clocks, hour) for hour in hours}
    return None if other_offsets else offset


@lru_cache(maxsize=1 << 12)
def _moments_around(time: DayTime, day: int) -> tuple[int, ...]:
    """Returns the moments of a time of day around a day (UTC); for each moment of that day they include the next
    one."""
    zone = zone_of(time.zone)
    return tuple(sorted({moment_of(zone, local_day * _DAY + time.micros) for local_day in range(day - 1, day + 3)}))


def _offset(clocks: tzinfo, moment: int) -> int:
    return _micros(to_datetime(moment).astimezone(clocks).utcoffset())


def _micros(length: timedelta | None) -> int:
    return (length or timedelta()) // timedelta(microseconds=1)
