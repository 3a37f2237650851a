"""Parses HOCON into plain mappings, with pyhocon, but with mandatory includes and errors that quote no values.

A file of a step may contain passwords, and errors end up in logs: they say where a mistake is and of which kind, but
quote nothing.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from glob import glob
from pathlib import Path
from threading import Lock
from typing import Any

from pyhocon import ConfigTree  # type: ignore[import-untyped]
from pyhocon.exceptions import ConfigException, ConfigSubstitutionException  # type: ignore[import-untyped]
from pyparsing import ParseBaseException, ParserElement

_EXPECTED = re.compile(r"Expected (?:end of text|'.{1,3}')")
_PLACE = re.compile(r"\(line: ?(\d+), col: ?(\d+)\)")
_LOCK = Lock()
"""Held while a text is parsed, with all that it includes: pyhocon keeps what blanks are in a global of pyparsing's."""


class HoconError(ValueError):
    """The text is not valid HOCON."""


def parse_hocon(text: str, folder: Path) -> Any:
    """Parse HOCON into plain mappings; includes are relative to the folder. Raises HoconError where it cannot be
    read."""
    with _LOCK, _default_blanks():
        try:
            return _plain(_read(text, str(folder)))
        except HoconError:
            raise
        except (ValueError, OverflowError):
            raise HoconError("a number or a time in it is too large") from None


@contextmanager
def _default_blanks() -> Iterator[None]:
    """Restores what pyhocon changes of pyparsing's, and does not restore after an error."""
    blanks = ParserElement.DEFAULT_WHITE_CHARS
    try:
        yield
    finally:
        ParserElement.set_default_whitespace_chars(blanks)


def _read(text: str, folder: str, **options: Any) -> Any:
    """The content of a text. Raises HoconError with the place of a mistake."""
    try:
        return _Parser.parse(text, folder, **options)
    except ParseBaseException as error:
        raise HoconError(_met(error)) from None
    except ConfigSubstitutionException as error:  # names the variable, and where it stands
        raise HoconError(" ".join(str(error).split())) from None
    except ConfigException as error:
        match = _PLACE.search(str(error))
        where = f"line {match[1]}, column {match[2]}: " if match else ""
        raise HoconError(f"{where}texts, lists and mappings are mixed in one value") from None
    except (AttributeError, KeyError, TypeError):
        raise HoconError("its parts, or what it includes, do not fit together") from None


class _Includes:
    """Reads included files, in place of pyhocon's factory, which follows URLs and takes a missing file for an empty
    one."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def parse_file(self, path: str, required: bool = True, **options: Any) -> Any:
        """Called for an included file, which must exist, ``required(...)`` or not."""
        path = os.path.abspath(path)
        if path in self._open:
            raise HoconError(f"{path} includes itself")
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise HoconError(f"it includes {path}, which is not there") from None
        except OSError as error:
            raise HoconError(f"it includes {path}, which cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            byte = f"byte {error.object[error.start]:#04x}"
            raise HoconError(f"it includes {path}, which is not text in UTF-8: {byte}") from None
        self._open.append(path)
        try:
            return _read(text, os.path.dirname(path), **options)
        except HoconError as error:
            raise error if path in str(error) else HoconError(f"in {path}, which it includes: {error}") from None
        finally:
            self._open.pop()

    def parse_URL(self, url: str, **options: Any) -> Any:  # noqa: N802  (pyhocon's name)
        """Called for an included URL."""
        kind = url.split(":", 1)[0][:8]
        raise HoconError(f"it includes a URL ({kind}:...), and URLs are not followed: include a file") from None


def _matching(pattern: str, **options: Any) -> list[str]:
    """The files that match an included pattern, at least one."""
    files = sorted(glob(pattern, **options))
    if not files:
        raise HoconError(f"it includes {pattern}, and there is no such file")
    return files


def _own_parser() -> Any:
    """pyhocon's module of the parser, loaded a second time, with our reading of included files: pyhocon lets nobody
    choose that, and the user may need the original in the same process."""
    spec = importlib.util.find_spec("pyhocon.config_parser")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ConfigFactory, module.glob = _Includes(), _matching
    return module


class _Parser(_own_parser().ConfigParser):  # type: ignore[misc]
    @classmethod
    def resolve_package_path(cls, package_path: str) -> str:
        """The file of ``include package("package:file")``."""
        try:
            return str(super().resolve_package_path(package_path))
        except (ImportError, ValueError, TypeError, AttributeError):
            raise HoconError(f"it includes {package_path} of a package, which is not there") from None


def _plain(value: Any) -> Any:
    """The value without pyhocon's own types: its durations become timedeltas."""
    if isinstance(value, ConfigTree):
        value = value.as_plain_ordered_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "microseconds") and not isinstance(value, timedelta):  # dateutil's relativedelta
        if value.months or value.years:
            return f"{value.years * 12 + value.months} months"  # of no fixed length
        return timedelta(
            days=value.days,
            hours=value.hours,
            minutes=value.minutes,
            seconds=value.seconds,
            microseconds=value.microseconds,
        )
    return value


def _met(error: ParseBaseException) -> str:
    """The place of a mistake, the character found there, and what was expected, where the parser has short words for
    it."""
    text, index = error.pstr, error.loc
    position = f"line {error.lineno}, column {error.col}"
    if text[max(index - 1, 0) : index + 1] in ('."', '".'):
        return f'{position}: a path with quotes in it (a."b".c: ...) cannot be read; write a {{ "b" {{ c: ... }} }}'
    character = repr(text[index]) if index < len(text) else "the end of the file"
    known = _EXPECTED.fullmatch(str(error.msg))
    expected = str(error.msg).lower() if known else "expected a value, a key or a sign"
    if character == "'\"'" and known and "end" in expected:
        return f"{position}: quotes that are not closed in their line"
    return f"{position}: {expected}, met {character}"
