"""The values of a step's file, and how they may be written.

A number, or true and false, may be given as a text (``"100"``), because substitutions of the environment are texts. A
number is not accepted for a text: its spelling in the file (``1.10``) is no longer known. A time is a whole number of
milliseconds, or has a unit (``5 s``, ``"5s"``, ``500 ms``, ``2 minutes``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator
from pydantic.alias_generators import to_camel

from topologies.io.documents.showing import brief
from topologies.io.patterns import literal
from windowing.errors import ConfigError
from windowing.time.durations import Duration, parse_duration

Details = Literal["full", "type"]
"""How much to report of an exception: all of it, or its type and origin, without its text."""


class Given(str):
    """A path as given in a file, which remembers the folder of that file."""

    folder: Path

    @classmethod
    def of(cls, text: str, folder: Path) -> Given:
        """The text with its folder."""
        given = cls(text)
        given.folder = folder
        return given


@dataclass(frozen=True)
class FilePath:
    """A path as written, and the folder to which it is relative."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return self.text

    @property
    def file(self) -> Path:
        """The path of the file."""
        return self.folder / self.text

    @property
    def place(self) -> str:
        """The path of a folder, also on other file systems."""
        return self.text if "://" in self.text else str(self.file)

    @property
    def location(self) -> str:
        """The location, for readers that also support folders, patterns and other file systems: only what the user
        wrote is a pattern."""
        if "://" in self.text or os.path.isabs(self.text):
            return self.text
        return f"{literal(str(self.folder))}/{self.text}"


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return str(value)
    quoted = " (in quotes)" if isinstance(value, int | float) else ""
    raise ValueError(f"expected a text{quoted}, found {brief(value)}")


def _path(value: object) -> FilePath:
    if isinstance(value, FilePath):
        return value
    return FilePath(_text(value), value.folder if isinstance(value, Given) else Path.cwd())


_NUMBER = re.compile(r"\s*[-+]?[0-9]+\s*")
_UNITS = {
    **dict.fromkeys(("micro", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("milli", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("second", "seconds"), "s"),
    **dict.fromkeys(("minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
"""The units of a time by HOCON's longer names for them."""
_NAMED_UNIT = re.compile(rf"\s*([0-9]+)\s*({'|'.join(_UNITS)})\s*")


def _whole(value: object) -> int:
    """A whole number of 1 or more."""
    number = value
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"expected a whole number of 1 or more, found {brief(value)}")
    return number


def at_most(limit: int, why: str) -> AfterValidator:
    """A validator for the upper bound of a whole number: a larger one is a typing error, or would cost more than it
    helps."""

    def check(number: int) -> int:
        if number > limit:
            raise ValueError(f"expected a whole number of 1 to {limit:_}, found {number}: {why}")
        return number

    return AfterValidator(check)


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {brief(value)}")
    return value


def _time(value: object) -> Duration:
    """A time above zero."""
    wanted = 'expected a time above zero, as milliseconds (100) or with a unit ("5s")'
    try:
        duration = _duration(value)
    except ConfigError:
        duration = None
    if duration is None or duration.micros <= 0:
        raise ValueError(f"{wanted}, found {brief(value)}")
    return duration


def _duration(value: object) -> Duration | None:
    if isinstance(value, Duration):
        return value
    if isinstance(value, float) and value.is_integer():
        return Duration(int(value) * 1_000)
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration(value * 1_000)
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return Duration(int(value) * 1_000)
        named = _NAMED_UNIT.fullmatch(value)
        return parse_duration(f"{named[1]}{_UNITS[named[2]]}" if named else value)
    return None


def listed(value: object) -> object:
    """Accept a single value for a list of one."""
    return [value] if isinstance(value, str | Mapping) else value


Text = Annotated[str, PlainValidator(_text), PlainSerializer(str)]
File = Annotated[FilePath, PlainValidator(_path), PlainSerializer(str)]
Whole = Annotated[int, PlainValidator(_whole)]
Flag = Annotated[bool, PlainValidator(_flag)]
TimeSetting = Annotated[Duration, PlainValidator(_time), PlainSerializer(str)]
Texts = Annotated[list[Text], BeforeValidator(listed), Field(min_length=1)]


class Section(BaseModel):
    """A mapping of a step's file: unknown keys are errors; names are those of the file, such as ``stateFull``, at all
    levels."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        arbitrary_types_allowed=True,
        validate_default=False,
    )


class Place(Section):
    """The place of rules, a schema or variables: a file, or on the path of Python's modules (``classpath``)."""

    source: Literal["classpath", "file"] = "classpath"
    path: File = Field(description='where it is: path: "rules/aggregate.py"')

    def __str__(self) -> str:
        return f"{self.path} ({'a file' if self.source == 'file' else 'on the class path'})"
