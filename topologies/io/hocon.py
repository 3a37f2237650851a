"""Reads HOCON, as lightbend/config's HOCON.md defines it, into plain mappings."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, NoReturn

# The values of a HOCON text, and the resolution of references between them.
#
# Every key keeps all its values, in order: mappings are merged with those before them, other values hide them.
# ``${a.b}`` is looked up when its value is needed. While a value is being computed, it sees only the earlier values of
# its key (``path: ${path}":/opt"``). If there are none, the reference is circular.


MIXED = "texts, lists and mappings are mixed in one value"


class HoconError(ValueError):
    """Raised for a text that is not valid HOCON."""


@dataclass(frozen=True)
class TextPlace:
    """A place in a text."""

    text: str = field(repr=False)
    at: int
    """The index of its character, from 0."""
    file: Path | None
    """The included file that contains the text; None for the main file."""

    def error(self, what: str) -> HoconError:
        """Returns the error for a mistake at this place."""
        within = f"in {self.file}, which it includes: " if self.file else ""
        line, column = self.text.count("\n", 0, self.at) + 1, self.at - self.text.rfind("\n", 0, self.at)
        return HoconError(f"{within}line {line}, column {column}: {what}")


@dataclass(frozen=True)
class Scalar:
    """A text, a number, true, false or null."""

    value: Any
    spelling: str
    """The original text, which is used within a longer text."""


@dataclass(frozen=True)
class Whitespace:
    """Blanks between two parts of a value; they matter only in texts."""

    spelling: str


@dataclass(frozen=True)
class Reference:
    """``${path}``, or with ``optional`` ``${?path}``."""

    paths: tuple[tuple[str, ...], ...]
    """The paths to look up, in order: the path relative to the included file, as seen from the including file, and the
    path as written."""
    optional: bool
    place: TextPlace

    def __str__(self) -> str:
        return f"${{{'?' * self.optional}{'.'.join(self.paths[-1])}}}"


@dataclass(frozen=True)
class PreviousValue:
    """The earlier value of a key, to which ``+=`` appends."""


@dataclass
class ListValue:
    """A list."""

    items: list[Entry]
    is_resolved: bool = False
    """True if the values of all items are known."""


@dataclass
class Mapping:
    """The entries of each key, in order."""

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    is_resolved: bool = False
    """True if each key has one entry, whose value is known."""

    def overlay(self, other: Mapping) -> None:
        """Lays another mapping over this one: its values hide or extend the values here."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend(entries)


Value = Scalar | ListValue | Mapping
Part = Value | Whitespace | Reference | PreviousValue


@dataclass(eq=False)
class Entry:
    """A value of a key, or an item of a list: one part, or several parts that are joined."""

    parts: Sequence[Part]
    place: TextPlace
    value: Value | None = None
    """The computed value; None for an optional reference without a target."""
    is_known: bool = False
    is_open: bool = False
    """True while its value is being computed."""
    used: frozenset[Entry] = frozenset()
    """The entries whose values were used for the computed value."""
    seen_as: list[Value | None] = field(default_factory=list)
    """The values that other entries saw when this one referred to them: each saw only the part before it."""


class _Circular(Exception):
    """Raised if a value needs itself."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry


def resolve(root: Mapping | ListValue) -> Any:
    """Returns the root as plain dicts, lists and scalars. Raises HoconError for a reference without a value."""
    resolver = _Resolver(root if isinstance(root, Mapping) else Mapping())
    value = resolver.fully_resolved(root)
    resolver.check()
    return _as_python(value)


def _as_python(value: Value | None) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_python(entry.value) for key, (entry,) in value.entries.items()}
    if isinstance(value, ListValue):
        return [_as_python(item.value) for item in value.items]
    return None if value is None else value.value


class _Resolver:
    def __init__(self, root: Mapping) -> None:
        self.root = root
        self._relied_on: set[Entry] = set()
        """Entries that were skipped because they were being computed, since the current entry was begun."""
        self._used: set[Entry] = set()
        """Entries whose values were used since the current entry was begun."""
        self._circular: list[Entry] = []
        """The entries with values in ``seen_as``."""

    def check(self) -> None:
        """Raises HoconError if an entry used a value of another entry that differs from its final value: the result
        would depend on the order of evaluation (``a: 1, b: 2, a: ${b}, b: ${a}``)."""
        for entry in self._circular:
            values = [
                _as_python(None if value is None else self.fully_resolved(value))
                for value in (entry.value, *entry.seen_as)
            ]
            if entry.is_known and any(value != values[0] for value in values):
                raise entry.place.error("its references are circular, and could have several values")

    def fully_resolved(self, value: Value) -> Value:
        """Returns the value with everything in it resolved."""
        if isinstance(value, Scalar) or value.is_resolved:
            return value
        if isinstance(value, Mapping):
            found = {key: (self._value_of_key(entries), entries[-1].place) for key, entries in value.entries.items()}
            return Mapping(
                {key: [_entry_with_value(*each)] for key, each in found.items() if each[0] is not None}, True
            )
        items = [(self._value(item, []), item.place) for item in value.items]
        return ListValue(
            [_entry_with_value(self.fully_resolved(inner), place) for inner, place in items if inner is not None], True
        )

    def _value_of_key(self, entries: Sequence[Entry], *, looks_back: bool = False) -> Value | None:
        """Returns the value of a key from its entries; None if it has none."""
        layers = self._layers(entries, looks_back=looks_back)
        return self.fully_resolved(_merge(layers)) if layers else None

    def _layers(self, entries: Sequence[Entry], *, looks_back: bool = False) -> list[Value]:
        """Returns the values of a key, the last first: overlaid mappings, or one value of another kind. With
        ``looks_back``, an entry that cannot be computed now is left out, together with all later entries."""
        layers: list[Value] = []
        for index, entry in reversed(list(enumerate(entries))):
            try:
                value = self._value(entry, entries[:index])
            except _Circular as circular:
                if not looks_back:
                    raise
                self._relied_on.add(circular.entry)
                layers = []
                continue
            if isinstance(value, Mapping):
                layers.append(value)
            elif value is not None:
                return layers or [value]
        return layers

    def _value(self, entry: Entry, before: Sequence[Entry]) -> Value | None:
        """Returns the value of an entry, without resolving lists and mappings inside it."""
        if len(entry.parts) == 1 and isinstance(part := entry.parts[0], Scalar | ListValue | Mapping):
            return part
        if entry.is_known and not any(other.is_open for other in entry.used):
            self._used |= entry.used
            return entry.value
        if entry.is_open:
            raise _Circular(entry)
        relied_on_before, used_before = self._relied_on, self._used
        self._relied_on, self._used = relied_on, used = set[Entry](), {entry}
        entry.is_open = True
        try:
            value = self._join_parts(entry, before)
        except _Circular as circular:
            if circular.entry is entry:
                raise entry.place.error("its references are circular") from None
            raise
        finally:
            entry.is_open = False
            relied_on.discard(entry)
            relied_on_before |= relied_on
            used_before |= used
            self._relied_on, self._used = relied_on_before, used_before
        if not relied_on:
            entry.value, entry.used, entry.is_known = value, frozenset(used), True
        else:
            self._circular += [] if entry.seen_as else [entry]
            entry.seen_as.append(value)
        return value

    def _join_parts(self, entry: Entry, before: Sequence[Entry]) -> Value | None:
        """Returns the parts of an entry as one value."""
        found: list[Value | Whitespace] = []
        for part in entry.parts:
            if isinstance(part, Reference | PreviousValue):
                value = self._value_of_key(before) if isinstance(part, PreviousValue) else self._target_of(part, entry)
                found += [] if value is None else [value]
            else:
                found.append(part)
        values = [part for part in found if not isinstance(part, Whitespace)]
        if len(entry.parts) == 1 or not found:
            return values[0] if values else None
        mappings = [value for value in values if isinstance(value, Mapping)]
        lists = [value for value in values if isinstance(value, ListValue)]
        if not mappings and not lists:
            text = "".join(part.spelling for part in found if isinstance(part, Scalar | Whitespace))
            return Scalar(text, text)
        if len(mappings) == len(values):
            return _merge(mappings[::-1])
        if len(lists) == len(values):
            refers = any(isinstance(part, Reference | PreviousValue) for part in entry.parts)
            resolved = [self.fully_resolved(part) if refers else part for part in lists]
            return ListValue([item for part in resolved if isinstance(part, ListValue) for item in part.items])
        raise entry.place.error(MIXED)

    def _target_of(self, reference: Reference, entry: Entry) -> Value | None:
        """Returns the target of a reference; None for an optional reference without a target."""
        refers_to_itself = False
        for path in reference.paths:
            try:
                value = self._at([self.root], path)
            except _Circular as circular:
                if circular.entry is not entry:
                    raise
                value, refers_to_itself = None, True
            if value is not None:
                return value
            refers_to_itself |= bool(self._relied_on)
        text = os.environ.get(".".join(reference.paths[-1]))
        if text is not None:
            return Scalar(text, text)
        if reference.optional:
            return None
        raise reference.place.error(f"{reference} has no value{' other than itself' if refers_to_itself else ''}")

    def _at(self, layers: Sequence[Value], path: Sequence[str]) -> Value | None:
        """Returns the value at a path within overlaid mappings, the last first."""
        key, *rest = path
        within = [layer.entries.get(key, ()) for layer in reversed(layers) if isinstance(layer, Mapping)]
        entries = [entry for of_one_layer in within for entry in of_one_layer]
        first_open = next((index for index, entry in enumerate(entries) if entry.is_open), len(entries))
        self._relied_on.update(entries[first_open : first_open + 1])
        if rest:
            return self._at(self._layers(entries[:first_open], looks_back=True), rest)
        return self._value_of_key(entries[:first_open], looks_back=True)


def _entry_with_value(value: Value | None, place: TextPlace) -> Entry:
    return Entry([], place, value, is_known=True)


def _merge(layers: Sequence[Value]) -> Value:
    """Returns one mapping for overlaid mappings, of which the last comes first; other values unchanged."""
    if len(layers) == 1:
        return layers[0]
    merged = Mapping()
    for layer in reversed(layers):
        assert isinstance(layer, Mapping)
        merged.overlay(layer)
    return merged


# Reads HOCON, as lightbend/config's HOCON.md defines it, into plain mappings.
#
# A file of a step may contain passwords, and errors end up in logs. So errors tell the place and kind of a mistake, but
# quote nothing. Included files must exist. Refused as unsupported: URLs and class paths, files in other languages,
# mappings of numbered keys as lists.


_SPACES = r"\t\v\f\r\x1c-\x1f \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BLANK = re.compile(f"[{_SPACES}]*")
_GAP = re.compile(rf"(?:[\n{_SPACES}]|#[^\n]*|//[^\n]*)*")
"""Matches text between fields and items: blanks, ends of lines and comments."""
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
    """Parses HOCON into plain mappings; includes are relative to the folder. Raises HoconError if it cannot be read."""
    return resolve(_HoconReader(text, folder).document())


class _HoconReader:
    """Reads one text from beginning to end."""

    def __init__(
        self, text: str, folder: Path, open_files: Sequence[Path] = (), root: tuple[str, ...] | None = ()
    ) -> None:
        self._text = text
        self._folder = folder
        self._open_files = open_files
        """The included file with this text, preceded by the files that include it, the outermost first."""
        self._root = root
        """The path at which the text is included; None within a list, which has no paths."""
        self._at = 0

    def document(self) -> Mapping | ListValue:
        """Returns the mapping or list of the whole text."""
        self._skip_gap()
        root: Mapping | ListValue
        if self._take("["):
            root = self._list()
        else:
            root = Mapping()
            self._fields(root, self._root, closing="}" if self._take("{") else "")
        self._skip_gap()
        if self._at < len(self._text):
            self._fail("expected end of text")
        return root

    def _fields(self, mapping: Mapping, path: tuple[str, ...] | None, closing: str) -> None:
        """Reads the fields of a mapping, with its closing brace, and adds them to it."""
        self._skip_gap()
        while not (self._take(closing) if closing else self._at == len(self._text)):
            word = _UNQUOTED.match(self._text, self._at)
            if word and word[0] == "include":
                self._at = word.end()
                mapping.overlay(self._include(path))
            else:
                self._field(mapping, path)
            self._separator(closing)

    def _field(self, mapping: Mapping, path: tuple[str, ...] | None) -> None:
        place = self._place()
        *outer, key = self._path("a key")
        self._skip_gap()
        appends = self._take("+=")
        if not appends and not self._take(":") and not self._take("=") and self._next() != "{":
            self._fail("expected ':', '=' or a value in braces")
        self._skip_gap()
        for name in outer:
            inner = Mapping()
            mapping.entries.setdefault(name, []).append(Entry([inner], place))
            mapping = inner
        inner_path = None if path is None else (*path, *outer, key)
        entry = self._value(None if appends else inner_path)
        if appends:
            entry = Entry([PreviousValue(), ListValue([entry])], entry.place)
        mapping.entries.setdefault(key, []).append(entry)

    def _list(self) -> ListValue:
        """Reads the items of a list, with its closing bracket."""
        items: list[Entry] = []
        self._skip_gap()
        while not self._take("]"):
            items.append(self._value(None))
            self._separator("]")
        return ListValue(items)

    def _separator(self, closing: str) -> None:
        """Reads the separator after a field or an item: a comma or a line end; the last one may lack it."""
        at_new_line = self._skip_gap()
        if self._take(","):
            self._skip_gap()
        elif not at_new_line and self._at < len(self._text) and self._next() != closing:
            is_brace = self._next() == "}" and not closing
            self._fail("expected end of text" if is_brace else f"expected a comma or a new line{_IN_QUOTES}")

    def _value(self, path: tuple[str, ...] | None) -> Entry:
        """Reads a value, up to the line end, a comma or a closing sign."""
        place, parts = self._place(), list[Part]()
        while True:
            start = self._at
            self._at = self._match(_BLANK).end()
            if self._next() in ("", "\n", ",", "]", "}", "#") or self._text.startswith("//", self._at):
                break
            if parts and self._at > start:
                parts.append(Whitespace(self._text[start : self._at]))
            parts.append(self._part(path))
        if not parts:
            self._fail("expected a value")
        if sum(any(isinstance(part, kind) for part in parts) for kind in (Scalar, ListValue, Mapping)) > 1:
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

    def _number(self, text: str, parts: re.Match[str], place: TextPlace) -> int | float:
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
        """Reads a path such as ``a."b.c".d``."""
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
                    self._check_name(name or has_name)
                    names.append(name)
                    name, has_name = "", False
                name += piece
            self._at = word.end()
        if not names and not name and not has_name:
            self._fail(f"expected {what}")
        self._check_name(name or has_name)
        return (*names, name)

    def _check_name(self, name: str | bool) -> None:
        if not name:
            raise self._place().error("a path has a name before and after each dot")

    def _reference(self, place: TextPlace) -> Reference:
        optional = self._take("?")
        path = self._path("a path")
        if not self._take("}"):
            self._fail("expected '}'")
        if self._root is None:
            raise place.error("a file that is included within a list cannot have references")
        return Reference(((*self._root, *path), path) if self._root else (path,), optional, place)

    def _include(self, path: tuple[str, ...] | None) -> Mapping:
        """Returns the fields of included files, after the word ``include``."""
        place = self._place()
        opening = _INCLUDED.match(self._text, self._at)
        if not opening:
            self._fail('expected include "file"')
        self._at = opening.end()
        name = self._quoted()
        for _ in range(opening[0].count("(")):
            self._skip_gap()
            if not self._take(")"):
                self._fail("expected ')'")
        if (url := _URL.match(name)) or "url(" in opening[0]:
            kind = f" ({(url[1] or url[2])[:8]}:...)" if url else ""
            raise place.error(f"it includes a URL{kind}, and URLs are not followed: include a file")
        if other := next((kind for kind in ("classpath", "package") if f"{kind}(" in opening[0]), None):
            raise place.error(f"it includes a {other}, which is not supported: include a file")
        included = Mapping()
        for file in self._files(name, place):
            included.overlay(self._file(file, path, place))
        return included

    def _files(self, name: str, place: TextPlace) -> list[Path]:
        """Returns the file with a name, or all files that match a pattern."""
        if "\0" in name:
            raise place.error("it includes a file whose name has a null character")
        file = Path(os.path.abspath(self._folder / name))
        if file.exists() or not has_magic(name):
            return [file]
        found = sorted(glob(name, root_dir=self._folder))
        if not found:
            raise place.error(f"it includes {file}, and there is no such file")
        return [Path(os.path.abspath(self._folder / match)) for match in found]

    def _file(self, file: Path, path: tuple[str, ...] | None, place: TextPlace) -> Mapping:
        """Returns the fields of an included file."""
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
        root = _HoconReader(text, file.parent, (*self._open_files, file), path).document()
        if not isinstance(root, Mapping):
            raise place.error(f"it includes {file}, which holds a list, and a mapping is needed")
        return root

    def _skip_gap(self) -> bool:
        """Skips blanks, comments and line ends; True if there was a line end."""
        gap = self._match(_GAP)
        self._at = gap.end()
        return "\n" in gap[0]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Returns the match of a pattern that also matches empty text."""
        found = pattern.match(self._text, self._at)
        assert found is not None
        return found

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._at)
        self._at += len(sign) * found
        return found

    def _place(self, at: int | None = None) -> TextPlace:
        return TextPlace(self._text, self._at if at is None else at, self._open_files[-1] if self._open_files else None)

    def _fail(self, expected: str) -> NoReturn:
        character = repr(self._next()) if self._at < len(self._text) else "the end of the file"
        raise self._place().error(f"{expected}, met {character}")
