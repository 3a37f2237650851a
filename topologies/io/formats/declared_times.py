"""Declared forms of times, by column: a format like ``"%d/%m/%Y %I:%M %p"``, or the unit of numbers, ``"s"``.

A format has the directives of Python's ``strptime``, with the same meaning and English names. It is stricter where
Python guesses: adjacent numbers need all their digits, the 366th day of a year with 365 days is refused, and a day of
the week must match the date. Digits of ``%f`` beyond microseconds are cut, and so are those of numbers.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.text_values import (
    Converted,
    Mask,
    blank_bad,
    flags_of_cut,
    from_timestamps,
    from_wall_times,
    union_flags,
    valid_mask,
    within_calendar,
)
from windowing.errors import ConfigError

Times: TypeAlias = tuple[tuple[str, str], ...]
"""Columns, each with the form of its times."""
AS_WRITTEN = ""
"""The form of a column that is read as the text in the file, even if that is a number."""

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_MICROS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 10**3)}
_MAX_DECIMALS = 7
"""Most decimals of numbers that the fast path reads: enough for seconds with all digits of a double."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_WHOLE = r"^-?[0-9]{1,18}$"
_SIMPLE = rf"^-?[0-9]{{1,11}}\.[0-9]{{1,{_MAX_DECIMALS}}}$"

_MONTHS, _DAYS = [name.lower() for name in calendar.month_name[1:]], [name.lower() for name in calendar.day_name]
_NAMES = {"B": _MONTHS, "b": [name[:3] for name in _MONTHS], "A": _DAYS, "a": [name[:3] for name in _DAYS]}
_NUMBERS = {
    "Y": ("[0-9]{4}", "[0-9]{4}"),
    "y": ("[0-9]{2}", "[0-9]{2}"),
    "m": ("1[0-2]|0[1-9]", "1[0-2]|0[1-9]|[1-9]"),
    "d": ("3[01]|[12][0-9]|0[1-9]", "3[01]|[12][0-9]|0[1-9]|[1-9]| [1-9]"),
    "j": ("36[0-6]|3[0-5][0-9]|[12][0-9]{2}|0[1-9][0-9]|00[1-9]",) * 2,
    "H": ("2[0-3]|[01][0-9]", "2[0-3]|[01][0-9]|[0-9]"),
    "I": ("1[0-2]|0[1-9]", "1[0-2]|0[1-9]|[1-9]"),
    "M": ("[0-5][0-9]", "[0-5][0-9]|[0-9]"),
    "S": ("[0-5][0-9]", "[0-5][0-9]|[0-9]"),
    "f": ("[0-9]{1,9}", "[0-9]{1,9}"),
}
"""Patterns of numeric directives: next to other digits, and elsewhere."""
_PATTERNS = {
    **{sign: "|".join(names) for sign, names in _NAMES.items()},
    "p": "am|pm",
    "z": "(?-i:Z)|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9]",
}
_ALIKE = ("Yy", "mbB", "aA", "HI")
"""Groups of directives; a format may have only one of each group."""
_TIME_OF_DAY_SIGNS = "HIMSfpz"
_KNOWN_DIRECTIVES = " ".join(f"%{sign}" for sign in (*_NUMBERS, *_PATTERNS))
_PART = re.compile(r"%(?P<sign>.)|(?P<space>\s+)|(?P<literal>[^%\s])", re.DOTALL)


class TimeForm(Protocol):
    """Form in which the times of a column are written."""

    def parse(self, texts: pa.Array, target: pa.DataType) -> Converted:
        """Converts texts to dates or timestamps."""

    def reason(self, text: str) -> str:
        """Describes why a text is not a time of this form."""


def checked_times(given: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> Times:
    """Returns the declared forms of times, by column. Raises ConfigError for a form that does not determine a
    moment."""
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else given
    found: list[tuple[str, str]] = []
    for pair in pairs if isinstance(given, Mapping | tuple | list) else [None]:
        match pair:
            case (str() as name, str() as form):
                found.append((name, form))
                form_of(form)
            case _:
                raise ConfigError(
                    f"times={given!r:.60}",
                    why="it says of columns how their times are written",
                    do="write times={'ts': '%d/%m/%Y %H:%M', 'at': 's'}",
                )
    return tuple(found)


@lru_cache(maxsize=256)
def form_of(text: str) -> TimeForm:
    """Returns the form that a text declares: a unit or a format. Raises ConfigError for other texts."""
    if text == AS_WRITTEN:
        return _AsWritten()
    if text in _UNITS:
        return _Unit(text)
    if "%" in text:
        return _Format.of(text)
    raise ConfigError(
        f"times are written as {text!r}",
        why="that is neither a format nor a unit",
        do="give a format of strptime like '%d/%m/%Y %H:%M', or the unit of numbers: 's', 'ms', 'us' or 'ns'",
    )


def is_unit(text: str) -> bool:
    """True for a form of numbers."""
    return text in _UNITS


def unit_in_words(text: str) -> str:
    """Returns the unit of a form of numbers."""
    return _UNITS[text]


def check_kind(name: str, text: str, kind: pa.DataType) -> None:
    """Raises ConfigError for a column whose type cannot hold times of this form."""
    if pa.types.is_timestamp(kind):
        return
    if not pa.types.is_date(kind):
        raise ConfigError(
            f"times={{{name!r}: {text!r}}}, and {name!r} is no timestamp",
            why="only dates and timestamps are written so",
            do=f"declare '{name} timestamp', or leave it out",
        )
    form = form_of(text)
    if not isinstance(form, _Format) or any(sign in _TIME_OF_DAY_SIGNS for sign in form.signs):
        raise ConfigError(
            f"times={{{name!r}: {text!r}}}, and {name!r} is a date",
            why="that has a time of day, which a date has not",
            do=f"declare '{name} timestamp', or give a format of dates like '%d/%m/%Y'",
        )


@dataclass(frozen=True)
class _AsWritten:
    def parse(self, texts: pa.Array, target: pa.DataType) -> Converted:
        return texts.cast(target), None

    def reason(self, text: str) -> str:
        return "it is no text"


@dataclass(frozen=True)
class _Unit:
    """Form of times as numbers since 1970, with any number of decimals."""

    name: str

    def parse(self, texts: pa.Array, target: pa.DataType) -> Converted:
        texts = pc.ascii_trim_whitespace(texts)
        is_whole_or_null = pc.match_substring_regex(texts, _WHOLE).fill_null(True)
        if pc.all(is_whole_or_null).as_py() is not False:
            return within_calendar(*self.from_whole_numbers(texts.cast(pa.int64()), target))
        is_whole, is_valid = _mask(is_whole_or_null), valid_mask(texts)
        simple = _mask(pc.match_substring_regex(texts, _SIMPLE).fill_null(False))
        number = _mask(pc.match_substring_regex(texts, _NUMBER).fill_null(False))
        moments, flags = self.from_whole_numbers(_only_chosen(texts, is_whole).cast(pa.int64()), target)
        micros, cut = self._decimals(_only_chosen(texts, simple))
        bad: Mask = ~number & is_valid
        for at in np.flatnonzero(number & ~is_whole & ~simple).tolist():
            found = self._exact_micros(texts[at].as_py())
            if found is None:
                bad[at] = True
            else:
                micros[at], cut[at] = found
                simple[at] = True
        fine, beyond = from_timestamps(pa.array(micros, pa.timestamp("us", "UTC"), mask=~simple), target)
        flags = union_flags(union_flags(union_flags(flags, flags_of_cut(cut)), beyond), bad)
        return within_calendar(pc.coalesce(moments, fine), flags)

    def from_whole_numbers(self, numbers: pa.Array, target: pa.DataType) -> Converted:
        """Returns whole numbers of this unit as times."""
        return from_timestamps(numbers.view(pa.timestamp(self.name, "UTC")), target)

    def reason(self, text: str) -> str:
        if re.match(_NUMBER, text.strip()):
            return f"as {_UNITS[self.name]} it is outside the years 1 to 9999"
        return f"it is no number of {_UNITS[self.name]}, as times= says"

    def _decimals(self, texts: pa.Array) -> tuple[npt.NDArray[np.int64], Mask]:
        """Returns numbers with a few decimals as microseconds, rounded down, and a mask of those that were cut."""
        numbers = texts.cast(pa.decimal128(18, _MAX_DECIMALS)).fill_null(0)
        parts = np.frombuffer(numbers.buffers()[1], np.int64)[: 2 * (numbers.offset + len(numbers))]
        ticks = parts[2 * numbers.offset :: 2]  # the lower half of 128 bits
        ticks_per_micro = 10**_MAX_DECIMALS / _MICROS[self.name]
        micros = ticks // int(ticks_per_micro)
        return micros, micros * int(ticks_per_micro) != ticks

    def _exact_micros(self, text: str) -> tuple[int, bool] | None:
        micros = Fraction(text) * _MICROS[self.name]
        low = micros.numerator // micros.denominator
        return (low, low != micros) if abs(low) < 2**63 else None


@dataclass(frozen=True)
class _Format:
    """Form given by a format of ``strptime``."""

    text: str
    pattern: str
    signs: frozenset[str]

    @staticmethod
    def of(text: str) -> _Format:
        parts = list(_PART.finditer(text))
        if "".join(part[0] for part in parts) != text:
            raise _format_error(text, "a percent sign stands before a letter; %% is one of its own")
        signs = [part["sign"] for part in parts if part["sign"] is not None and part["sign"] != "%"]
        _check_signs(text, signs)
        pattern = ""
        for place, part in enumerate(parts):
            sign = part["sign"]
            if part["space"]:
                pattern += r"\s+"
            elif sign in _NUMBERS:
                beside = _is_digit(parts[place - 1]) if place else False
                beside = beside or (place + 1 < len(parts) and _is_digit(parts[place + 1]))
                pattern += f"(?P<{sign}>{_NUMBERS[sign][0 if beside else 1]})"
            elif sign in _PATTERNS:
                pattern += f"(?P<{sign}>{_PATTERNS[sign]})"
            else:
                pattern += re.escape(part["literal"] or "%")
        return _Format(text, f"(?i)^{pattern}$", frozenset(signs))

    def parse(self, texts: pa.Array, target: pa.DataType) -> Converted:
        texts = pc.ascii_trim_whitespace(texts)
        found = pc.extract_regex(texts, self.pattern)
        parts = {sign: pc.struct_field(found, [sign]) for sign in self.signs}  # null for texts of another form
        bad: Mask = valid_mask(texts) & ~valid_mask(found)
        days, wrong = self._days(parts)
        bad |= wrong & valid_mask(found)
        absent = ~valid_mask(found) | bad
        if pa.types.is_date(target):
            made = pa.array(np.where(absent, 0, days).astype(np.int32), pa.date32(), mask=absent).cast(target)
            return made, bad if bad.any() else None
        micros, cut = self._time_of_day(parts)
        wall = np.where(absent, 0, days * 86_400_000_000 + micros)
        if "z" in self.signs:
            moments = pa.array(wall - np.where(absent, 0, _offsets(parts["z"])), pa.timestamp("us", "UTC"), mask=absent)
        else:
            zone = pa.timestamp("us", target.tz)
            moments = from_wall_times(pa.array(wall, pa.timestamp("us"), mask=absent), zone)
        moments, beyond = from_timestamps(moments, target)
        flags = union_flags(flags_of_cut(cut & ~absent), beyond)
        return within_calendar(
            blank_bad(moments, bad) if bad.any() else moments, union_flags(flags, bad if bad.any() else None)
        )

    def reason(self, text: str) -> str:
        found = re.match(self.pattern, text.strip())
        if found is None:
            return f"it is not written like {self.text!r}, as times= says"
        _, no_such_day = self._days({sign: pa.array([found[sign]]) for sign in self.signs})
        if not no_such_day.any():
            return "in UTC it is outside the years 1 to 9999"
        named = {"a", "A"} & self.signs
        return "there is no such day" + (", or it is not that day of the week" if named else "")

    def _days(self, parts: Mapping[str, pa.Array]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Returns the days since 1970, and a mask of the invalid ones."""
        if "Y" in parts:
            years = _integers(parts["Y"])
        else:
            years = _integers(parts["y"])
            years = years + np.where(years > 68, 1900, 2000)  # as in POSIX
        no_such_day = years < 1
        years = np.maximum(years, 1)
        if "j" in parts:
            first, numbers = _first_days(years, np.zeros_like(years)), _integers(parts["j"])
            length = _first_days(years + 1, np.zeros_like(years)) - first
        else:
            name = next(sign for sign in "mbB" if sign in parts)
            months = _integers(parts["m"]) - 1 if name == "m" else _indices_in(parts[name], _NAMES[name])
            first, numbers = _first_days(years, months), _integers(pc.ascii_ltrim_whitespace(parts["d"]))
            length = _first_days(years, months + 1) - first
        days = first + numbers - 1
        no_such_day |= (numbers < 1) | (numbers > length)
        for sign in {"a", "A"} & parts.keys():
            no_such_day |= (days + 3) % 7 != _indices_in(parts[sign], _NAMES[sign])
        return days, no_such_day

    def _time_of_day(self, parts: Mapping[str, pa.Array]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Returns the microseconds since midnight, and a mask of the times that were cut."""
        size = len(next(iter(parts.values())))
        hours = _integers(parts["H"]) if "H" in parts else np.zeros(size, np.int64)
        if "I" in parts:
            hours = _integers(parts["I"]) % 12 + 12 * _indices_in(parts["p"], ["am", "pm"])
        minutes, seconds = (_integers(parts[sign]) if sign in parts else np.zeros(size, np.int64) for sign in "MS")
        nanos = np.zeros(size, np.int64)
        if "f" in parts:
            nanos = _integers(pc.utf8_rpad(parts["f"], 9, "0"))
        return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + nanos // 1000, nanos % 1000 != 0


def _check_signs(text: str, signs: list[str]) -> None:
    unknown = [sign for sign in signs if sign not in _NUMBERS and sign not in _PATTERNS]
    if unknown:
        raise _format_error(text, f"%{unknown[0]} is not known; there are {_KNOWN_DIRECTIVES}")
    for alike in (*_ALIKE, *signs):
        several = [sign for sign in signs if sign in alike]
        if len(several) > 1:
            raise _format_error(
                text, f"it has {' and '.join(f'%{sign}' for sign in several)}, of which it may have one"
            )
    has = set(signs)
    if not has & set("Yy"):
        raise _format_error(text, "it has no year, %Y or %y")
    of_year = bool(has & set("mbB")) and "d" in has
    if of_year == ("j" in has) or ("j" in has and has & set("dmbB")):
        raise _format_error(text, "it says a day by its month, %m or %b, and %d; or by its number in the year, %j")
    if ("I" in has) != ("p" in has):
        raise _format_error(text, "%I is an hour of a clock of twelve, and needs %p; %H is one of a day, without %p")
    for finer, coarser in (("M", "HI"), ("S", "M"), ("f", "S")):
        if finer in has and not has & set(coarser):
            raise _format_error(text, f"it has %{finer} without %{coarser[0]}")


def _format_error(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"the format {text!r} of times cannot be used",
        why=why,
        do="write the times of the input as Python's strptime reads them, like '%d/%m/%Y %I:%M %p'",
    )


def _is_digit(part: re.Match[str]) -> bool:
    return part["sign"] in _NUMBERS or (part["literal"] or "").isdigit()


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False)
    return mask


def _only_chosen(texts: pa.Array, chosen: Mask) -> pa.Array:
    return pc.if_else(pa.array(chosen), texts, pa.scalar(None, texts.type))


def _integers(texts: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = texts.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _indices_in(texts: pa.Array, names: list[str]) -> npt.NDArray[np.int64]:
    found = pc.index_in(pc.ascii_lower(texts), value_set=pa.array(names))
    indices: npt.NDArray[np.int64] = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _first_days(years: npt.NDArray[np.int64], months: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the first days of months, numbered from 0, in days since 1970."""
    months_since_1970 = ((years - 1970) * 12 + months).astype("datetime64[M]")
    return months_since_1970.astype("datetime64[D]").astype(np.int64)


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Returns offsets from UTC, in microseconds."""
    texts = pc.replace_substring(texts, "Z", "+00:00")
    hours, minutes = _integers(pc.utf8_slice_codeunits(texts, 1, 3)), _integers(pc.utf8_slice_codeunits(texts, -2, 9))
    size = (hours * 60 + minutes) * 60_000_000
    is_negative = _mask(pc.starts_with(texts, "-").fill_null(False))
    return np.where(is_negative, -size, size)
