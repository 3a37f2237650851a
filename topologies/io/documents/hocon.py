"""Reads HOCON, as lightbend/config's HOCON.md defines it, into plain mappings.

A file of a step may contain passwords, and errors end up in logs: they say where a mistake is and of which kind, but
quote nothing. Included files must exist. What is not supported is refused: URLs and class paths, files in other
languages, mappings of numbered keys as lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob, has_magic
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, NoReturn

from topologies.io.documents.hocon_values import (
    MIXED,
    Before,
    Blank,
    Entry,
    Mapping,
    Part,
    Place,
    Reference,
    Scalar,
    Sequenced,
    resolve,
)

_SPACES = r"\t\v\f\r\x1c-\x1f \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BLANK = re.compile(f"[{_SPACES}]*")
_GAP = re.compile(rf"(?:[\n{_SPACES}]|#[^\n]*|//[^\n]*)*")
"""Matches what may stand between fields and items: blanks, ends of lines and comments."""
_UNQUOTED = re.compile(rf'(?:(?!//)[^\n{_SPACES}$"{{}}\[\]:=,+#`^?!@*&\\])+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LIKE_NUMBER = re.compile(r"[-0-9][-+.eE0-9]*")
_TRIPLE = re.compile(r'"""(.*?"*)"""(?!")', re.DOTALL)
_INCLUDED = re.compile(rf'[\n{_SPACES}]*((?:required|file|url|classpath|package)\([\n{_SPACES}]*)*(?=")')
_URL = re.compile(r"(\w[-+.\w]*)://|(file|https?|jar):")
_IN_QUOTES = " (texts with signs in them are put in quotes)"
_WORDS = {"true": True, "false": False, "null": None}
_OTHER_LANGUAGES = (".properties", ".yaml", ".yml", ".toml")


def parse_hocon(text: str, folder: Path) -> Any:
    """Parse HOCON into plain mappings; includes are relative to the folder. Raises HoconError where it cannot be
    read."""
    return resolve(_Reader(text, folder).document())


class _Reader:
    """Reads one text, from its beginning to its end."""

    def __init__(
        self, text: str, folder: Path, open_files: Sequence[Path] = (), root: tuple[str, ...] | None = ()
    ) -> None:
        self._text = text
        self._folder = folder
        self._open_files = open_files
        """The included file that the text is, and those around it, the outermost first."""
        self._root = root
        """The path at which the text is included; None within a list, where it has none."""
        self._at = 0

    def document(self) -> Mapping | Sequenced:
        """The mapping or list that the text is."""
        self._gap()
        root: Mapping | Sequenced
        if self._take("["):
            root = self._list()
        else:
            root = Mapping()
            self._fields(root, self._root, closing="}" if self._take("{") else "")
        self._gap()
        if self._at < len(self._text):
            self._fail("expected end of text")
        return root

    def _fields(self, mapping: Mapping, path: tuple[str, ...] | None, closing: str) -> None:
        """The fields of a mapping, into it, with the brace that closes it."""
        self._gap()
        while not (self._take(closing) if closing else self._at == len(self._text)):
            word = _UNQUOTED.match(self._text, self._at)
            if word and word[0] == "include":
                self._at = word.end()
                mapping.lay(self._include(path))
            else:
                self._field(mapping, path)
            self._separator(closing)

    def _field(self, mapping: Mapping, path: tuple[str, ...] | None) -> None:
        place = self._place()
        *outer, key = self._path("a key")
        self._gap()
        appends = self._take("+=")
        if not appends and not self._take(":") and not self._take("=") and self._next() != "{":
            self._fail("expected ':', '=' or a value in braces")
        self._gap()
        for name in outer:
            inner = Mapping()
            mapping.entries.setdefault(name, []).append(Entry([inner], place))
            mapping = inner
        inside = None if path is None else (*path, *outer, key)
        entry = self._value(None if appends else inside)
        if appends:
            entry = Entry([Before(), Sequenced([entry])], entry.place)
        mapping.entries.setdefault(key, []).append(entry)

    def _list(self) -> Sequenced:
        """The items of a list, with the bracket that closes it."""
        items: list[Entry] = []
        self._gap()
        while not self._take("]"):
            items.append(self._value(None))
            self._separator("]")
        return Sequenced(items)

    def _separator(self, closing: str) -> None:
        """What comes after a field or an item: a comma or the end of the line, unless it is the last one."""
        at_new_line = self._gap()
        if self._take(","):
            self._gap()
        elif not at_new_line and self._at < len(self._text) and self._next() != closing:
            ends = self._next() == "}" and not closing
            self._fail("expected end of text" if ends else f"expected a comma or a new line{_IN_QUOTES}")

    def _value(self, path: tuple[str, ...] | None) -> Entry:
        """A value, up to the end of its line, a comma or a closing sign."""
        place, parts = self._place(), list[Part]()
        while True:
            start = self._at
            self._at = self._match(_BLANK).end()
            if self._next() in ("", "\n", ",", "]", "}", "#") or self._text.startswith("//", self._at):
                break
            if parts and self._at > start:
                parts.append(Blank(self._text[start : self._at]))
            parts.append(self._part(path))
        if not parts:
            self._fail("expected a value")
        if sum(any(isinstance(part, kind) for part in parts) for kind in (Scalar, Sequenced, Mapping)) > 1:
            raise place.error(MIXED)
        return Entry(parts, place)

    def _part(self, path: tuple[str, ...] | None) -> Part:
        place = self._place()
        if self._take("${"):
            return self._reference(place)
        if self._take("["):
            return self._list()
        if self._take("{"):
            mapping = Mapping()
            self._fields(mapping, path, "}")
            return mapping
        if self._next() == '"':
            text = self._quoted()
            return Scalar(text, text)
        number = _LIKE_NUMBER.match(self._text, self._at)
        if number and (exact := _NUMBER.fullmatch(number[0])):
            self._at = number.end()
            return Scalar(self._number(number[0], exact, place), number[0])
        word = _UNQUOTED.match(self._text, self._at)
        if not word or (number and "+" in number[0]):
            self._fail(f"expected a value{_IN_QUOTES}")
        self._at = word.end()
        return Scalar(_WORDS.get(word[0], word[0]), word[0])

    def _number(self, text: str, parts: re.Match[str], place: Place) -> int | float:
        try:
            number = float(text) if parts[1] or parts[2] else int(text)
        except ValueError:  # Python reads no number of more than 4,300 digits
            number = float("inf")
        if abs(number) == float("inf"):
            raise place.error("the number is too large")
        return number

    def _quoted(self) -> str:
        if triple := _TRIPLE.match(self._text, self._at):
            self._at = triple.end()
            return triple[1]
        if self._text.startswith('"""', self._at):
            raise self._place().error('three quotes (""") that are not closed')
        try:
            text, self._at = scanstring(self._text, self._at + 1, True)
        except JSONDecodeError as error:
            place = self._place(error.pos)
            if "escape" in error.msg:
                raise place.error(r"expected an escape of JSON (\n, \\, \u00e9), found another one") from None
            if "control" in error.msg and self._text[error.pos] != "\n":
                raise place.error(r"a control character within quotes; write it as an escape (\t)") from None
            raise self._place().error("quotes that are not closed in their line") from None
        return str(text)

    def _path(self, what: str) -> tuple[str, ...]:
        """A path such as ``a."b.c".d``."""
        names, name, has_name = list[str](), "", False
        self._at = self._match(_BLANK).end()
        while True:
            start = self._at
            self._at = self._match(_BLANK).end()
            word = _UNQUOTED.match(self._text, self._at)
            if not word and self._next() != '"':
                break
            name += self._text[start : self._at]
            if not word:
                name, has_name = name + self._quoted(), True
                continue
            for index, piece in enumerate(word[0].split(".")):
                if index:
                    self._named(name or has_name)
                    names.append(name)
                    name, has_name = "", False
                name += piece
            self._at = word.end()
        if not names and not name and not has_name:
            self._fail(f"expected {what}")
        self._named(name or has_name)
        return (*names, name)

    def _named(self, name: str | bool) -> None:
        if not name:
            raise self._place().error("a path has a name before and after each dot")

    def _reference(self, place: Place) -> Reference:
        optional = self._take("?")
        path = self._path("a path")
        if not self._take("}"):
            self._fail("expected '}'")
        if self._root is None:
            raise place.error("a file that is included within a list cannot have references")
        return Reference(((*self._root, *path), path) if self._root else (path,), optional, place)

    def _include(self, path: tuple[str, ...] | None) -> Mapping:
        """The fields of included files; the word ``include`` has been read."""
        place = self._place()
        opened = _INCLUDED.match(self._text, self._at)
        if not opened:
            self._fail('expected include "file"')
        self._at = opened.end()
        name = self._quoted()
        for _ in range(opened[0].count("(")):
            self._gap()
            if not self._take(")"):
                self._fail("expected ')'")
        if (url := _URL.match(name)) or "url(" in opened[0]:
            kind = f" ({(url[1] or url[2])[:8]}:...)" if url else ""
            raise place.error(f"it includes a URL{kind}, and URLs are not followed: include a file")
        if other := next((kind for kind in ("classpath", "package") if f"{kind}(" in opened[0]), None):
            raise place.error(f"it includes a {other}, which is not supported: include a file")
        included = Mapping()
        for file in self._files(name, place):
            included.lay(self._file(file, path, place))
        return included

    def _files(self, name: str, place: Place) -> list[Path]:
        """The file of a name, or those that match a pattern."""
        if "\0" in name:
            raise place.error("it includes a file whose name has a null character")
        file = Path(os.path.abspath(self._folder / name))
        if file.exists() or not has_magic(name):
            return [file]
        found = sorted(glob(name, root_dir=self._folder))
        if not found:
            raise place.error(f"it includes {file}, and there is no such file")
        return [Path(os.path.abspath(self._folder / match)) for match in found]

    def _file(self, file: Path, path: tuple[str, ...] | None, place: Place) -> Mapping:
        """The fields of an included file."""
        if file in self._open_files:
            raise place.error(f"{file} includes itself")
        if file.suffix.lower() in _OTHER_LANGUAGES:
            raise place.error(f"it includes {file}, and only files in HOCON and JSON can be included")
        try:
            text = file.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise place.error(f"it includes {file}, which is not there") from None
        except OSError as error:
            raise place.error(f"it includes {file}, which cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            byte = f"byte {error.object[error.start]:#04x}"
            raise place.error(f"it includes {file}, which is not text in UTF-8: {byte}") from None
        root = _Reader(text, file.parent, (*self._open_files, file), path).document()
        if not isinstance(root, Mapping):
            raise place.error(f"it includes {file}, which holds a list, and a mapping is needed")
        return root

    def _gap(self) -> bool:
        """Skip blanks, comments and ends of lines; True if there was an end of a line."""
        gap = self._match(_GAP)
        self._at = gap.end()
        return "\n" in gap[0]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The match of a pattern that matches everywhere, at least emptily."""
        found = pattern.match(self._text, self._at)
        assert found is not None
        return found

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += len(sign) * found
        return found

    def _place(self, at: int | None = None) -> Place:
        return Place(self._text, self._at if at is None else at, self._open_files[-1] if self._open_files else None)

    def _fail(self, expected: str) -> NoReturn:
        character = repr(self._next()) if self._at < len(self._text) else "the end of the file"
        raise self._place().error(f"{expected}, met {character}")
