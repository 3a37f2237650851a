"""The letters of Java's DateTimeFormatter that tell a time of day, and texts read by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windowing.errors import ConfigError

_SUPPORTED = "H, HH, k, kk, K, KK, h, hh, a, m, mm, s, ss, S to SSSSSSSSS, X to XXXXX, x to xxxxx, Z to ZZZZZ and VV"
_DO = "use {0}; quote other texts, like 'T'".format(_SUPPORTED.replace("{", "{{"))
_TOKEN = re.compile(r"([A-Za-z])\1*|'(?:[^']|'')*'|.", re.DOTALL)
_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000

# What each letter is called, its lowest and highest value, and an example.
_NUMBERS = {
    "H": ("hours", 0, 24, "11"),
    "k": ("hours", 0, 24, "11"),
    "K": ("hours of half a day", 0, 11, "11"),
    "h": ("hours of half a day", 1, 12, "11"),
    "m": ("minutes", 0, 59, "05"),
    "s": ("seconds", 0, 59, "00"),
}
_HOURS = frozenset("HkKh")
# By the number of letters: hours; with minutes; with a colon; with seconds if there are any; those with colons.
_OFFSETS = (
    (r"[+-]\d\d(?:\d\d)?", "+03"),
    (r"[+-]\d{4}", "+0300"),
    (r"[+-]\d\d:\d\d", "+03:00"),
    (r"[+-]\d{4}(?:\d\d)?", "+0300"),
    (r"[+-]\d\d:\d\d(?::\d\d)?", "+03:00"),
)
_ZONE = r"([A-Za-z][A-Za-z0-9~/._+-]+|Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)"


@dataclass(frozen=True)
class Part:
    """A piece of a pattern: what it matches, with a group for each letter, and how it is told to people."""

    regex: str
    says: str
    example: str
    letters: tuple[str, ...] = ()
    """Of each group its letter; any offset is an X."""


@dataclass(frozen=True)
class TimeText:
    """How a text tells a time of day."""

    pattern: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        regex = re.compile("".join(part.regex for part in self.parts), re.ASCII)
        object.__setattr__(self, "_regex", regex)
        object.__setattr__(self, "_letters", tuple(letter for part in self.parts for letter in part.letters))

    @property
    def example(self) -> str:
        """A text that fits."""
        return repr("".join(part.example for part in self.parts))

    def read(self, text: str) -> tuple[int, str | None]:
        """The microseconds after midnight, and the zone if the text names one; ConfigError if it does not fit."""
        match = self._regex.fullmatch(text)  # type: ignore[attr-defined]
        if match is None:
            raise self._refused(text, self._misfit(text))
        found: dict[str, str] = {}
        for letter, said in zip(self._letters, match.groups(), strict=True):  # type: ignore[attr-defined]
            if said is not None and found.setdefault(letter, said) != said:
                raise self._refused(text, f"it says {found[letter]} and {said} for the same thing")
        return self._micros(text, found), found.get("V") or _offset(found.get("X"))

    def _micros(self, text: str, found: dict[str, str]) -> int:
        values = {letter: int(found[letter]) for letter in found if letter in _NUMBERS}
        for letter, value in values.items():
            name, low, high, _ = _NUMBERS[letter]
            if not low <= value <= high:
                raise self._refused(text, f"{name} are {low:02} to {min(high, 23):02}, and here {value}")
        if missing := _missing(set(found)):
            raise self._refused(text, f"{missing}, and so it tells no time of day")
        hours = _hours(values, found.get("a", "").upper())
        if len(hours) > 1:
            raise self._refused(text, f"it tells the hours {' and '.join(map(str, sorted(hours)))}")
        (hour,) = hours
        rest = values.get("m", 0) * _MINUTE + values.get("s", 0) * _SECOND + int(found.get("S", "")[:6].ljust(6, "0"))
        if hour == 24 and rest and "k" not in values:
            raise self._refused(text, "hours are 00 to 23, and here 24")
        return hour * _HOUR % _DAY + rest

    def _misfit(self, text: str) -> str:
        """What was expected, after what, and what was found instead."""
        regex, end = "", 0
        for part in self.parts:
            regex += part.regex
            match = re.match(regex, text, re.ASCII)
            if match is None:
                return f"{part.says} expected{_after(text[:end])}, found {text[end:]!r:.40}"
            end = match.end()
        return f"the end expected{_after(text[:end])}, found {text[end:]!r:.40}"

    def _refused(self, text: str, why: str) -> ConfigError:
        return ConfigError(
            f"{text!r:.80} is no time of the pattern {self.pattern!r}", why=why, do=f"write it like {self.example}"
        )


def time_text(pattern: str) -> TimeText:
    """A pattern, read; ConfigError for one with unknown letters, or that tells no time of day."""
    text = TimeText(pattern, tuple(_parts(pattern, iter(_TOKEN.findall_tokens(pattern)), 0)))
    return text


def _after(text: str) -> str:
    return f" after {text!r}" if text else ""
