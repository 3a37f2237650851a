"""The values of a HOCON text as written, and how references between them are resolved.

Every key keeps all values that it was given, in order: mappings are merged with those before them, anything else hides
them. ``${a.b}`` is looked up when its value is needed. A value that is being worked out sees only what its key was
given before (``path: ${path}":/opt"``); where that does not help, the reference is circular.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIXED = "texts, lists and mappings are mixed in one value"


class HoconError(ValueError):
    """The text is not valid HOCON."""


@dataclass(frozen=True)
class Place:
    """A place in a text."""

    text: str = field(repr=False)
    at: int
    """The index of its character, from 0."""
    file: Path | None
    """The included file that holds the text, if it is one."""

    def error(self, what: str) -> HoconError:
        """The error for what is wrong there."""
        within = f"in {self.file}, which it includes: " if self.file else ""
        line, column = self.text.count("\n", 0, self.at) + 1, self.at - self.text.rfind("\n", 0, self.at)
        return HoconError(f"{within}line {line}, column {column}: {what}")


@dataclass(frozen=True)
class Scalar:
    """A text, a number, true, false or null."""

    value: Any
    spelling: str
    """How it was written, which is what it is within a longer text."""


@dataclass(frozen=True)
class Blank:
    """Blanks between two parts of a value; they matter only in texts."""

    spelling: str


@dataclass(frozen=True)
class Reference:
    """``${path}``, or with ``optional`` ``${?path}``."""

    paths: tuple[tuple[str, ...], ...]
    """The paths to look up, in order: that of an included file, as seen from the file that includes it, and the path as
    written."""
    optional: bool
    place: Place

    def __str__(self) -> str:
        return f"${{{'?' * self.optional}{'.'.join(self.paths[-1])}}}"


@dataclass(frozen=True)
class Before:
    """What a key was given before, which ``+=`` appends to."""


@dataclass
class Sequenced:
    """A list."""

    items: list[Entry]
    is_resolved: bool = False
    """Whether the values of all items are known."""


@dataclass
class Mapping:
    """The entries of each key, in order."""

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    is_resolved: bool = False
    """Whether each key has one entry, whose value is known."""

    def lay(self, other: Mapping) -> None:
        """Lay another mapping over this one."""
        for key, entries in other.entries.items():
            self.entries.setdefault(key, []).extend(entries)


Value = Scalar | Sequenced | Mapping
Part = Value | Blank | Reference | Before


@dataclass(eq=False)
class Entry:
    """A value given to a key, or an item of a list: one part, or several that are joined."""

    parts: Sequence[Part]
    place: Place
    value: Value | None = None
    """The value, once it is known; None for an optional reference that leads nowhere."""
    is_known: bool = False
    is_open: bool = False
    """Whether it is being worked out."""
    used: frozenset[Entry] = frozenset()
    """The entries whose values the known value was made of."""
    seen_as: list[Value | None] = field(default_factory=list)
    """The values that it had for entries that it refers to itself: each of them saw only what came before it."""


class _Circular(Exception):
    """A value is needed that is being worked out."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry


def resolve(root: Mapping | Sequenced) -> Any:
    """The root as plain dicts, lists and scalars. Raises HoconError for a reference without a value."""
    resolver = _Resolver(root if isinstance(root, Mapping) else Mapping())
    value = resolver.whole(root)
    resolver.check()
    return _plain(value)


def _plain(value: Value | None) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry.value) for key, (entry,) in value.entries.items()}
    if isinstance(value, Sequenced):
        return [_plain(item.value) for item in value.items]
    return None if value is None else value.value


class _Resolver:
    def __init__(self, root: Mapping) -> None:
        self.root = root
        self._relied_on: set[Entry] = set()
        """Entries that were passed over because they were being worked out, since the present one was begun."""
        self._used: set[Entry] = set()
        """Entries whose values were taken since the present one was begun."""
        self._circular: list[Entry] = []
        """The entries that have been ``seen_as`` something."""

    def check(self) -> None:
        """Raise HoconError for an entry that others saw with another value than it has: which is right depends on where
        one begins (``a: 1, b: 2, a: ${b}, b: ${a}``)."""
        for entry in self._circular:
            values = [_plain(None if value is None else self.whole(value)) for value in (entry.value, *entry.seen_as)]
            if entry.is_known and any(value != values[0] for value in values):
                raise entry.place.error("its references are circular, and could have several values")

    def whole(self, value: Value) -> Value:
        """The value with everything in it resolved."""
        if isinstance(value, Scalar) or value.is_resolved:
            return value
        if isinstance(value, Mapping):
            found = {key: (self._of_key(entries), entries[-1].place) for key, entries in value.entries.items()}
            return Mapping({key: [_known(*each)] for key, each in found.items() if each[0] is not None}, True)
        items = [(self._value(item, []), item.place) for item in value.items]
        return Sequenced([_known(self.whole(inner), place) for inner, place in items if inner is not None], True)

    def _of_key(self, entries: Sequence[Entry], *, looks_back: bool = False) -> Value | None:
        """The value of a key, by its entries; None where it has none."""
        layers = self._layers(entries, looks_back=looks_back)
        return self.whole(_merged(layers)) if layers else None

    def _layers(self, entries: Sequence[Entry], *, looks_back: bool = False) -> list[Value]:
        """The values of a key, the last first: mappings that lie over one another, or one value of another kind.

        With ``looks_back``, an entry that cannot be worked out now is left out, with all that came after it.
        """
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
        """The value of an entry. What it has of lists and mappings of its own is not resolved yet."""
        if len(entry.parts) == 1 and isinstance(part := entry.parts[0], Scalar | Sequenced | Mapping):
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
            value = self._joined(entry, before)
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

    def _joined(self, entry: Entry, before: Sequence[Entry]) -> Value | None:
        """The parts of an entry as one value."""
        found: list[Value | Blank] = []
        for part in entry.parts:
            if isinstance(part, Reference | Before):
                value = self._of_key(before) if isinstance(part, Before) else self._referred(part, entry)
                found += [] if value is None else [value]
            else:
                found.append(part)
        values = [part for part in found if not isinstance(part, Blank)]
        if len(entry.parts) == 1 or not found:
            return values[0] if values else None
        mappings = [value for value in values if isinstance(value, Mapping)]
        lists = [value for value in values if isinstance(value, Sequenced)]
        if not mappings and not lists:
            text = "".join(part.spelling for part in found if isinstance(part, Scalar | Blank))
            return Scalar(text, text)
        if len(mappings) == len(values):
            return _merged(mappings[::-1])
        if len(lists) == len(values):
            refers = any(isinstance(part, Reference | Before) for part in entry.parts)
            resolved = [self.whole(part) if refers else part for part in lists]
            return Sequenced([item for part in resolved if isinstance(part, Sequenced) for item in part.items])
        raise entry.place.error(MIXED)

    def _referred(self, reference: Reference, entry: Entry) -> Value | None:
        """The value that a reference of an entry leads to; None for an optional one that leads nowhere."""
        itself = False
        for path in reference.paths:
            try:
                value = self._at([self.root], path)
            except _Circular as circular:
                if circular.entry is not entry:
                    raise
                value, itself = None, True
            if value is not None:
                return value
            itself |= bool(self._relied_on)
        text = os.environ.get(".".join(reference.paths[-1]))
        if text is not None:
            return Scalar(text, text)
        if reference.optional:
            return None
        raise reference.place.error(f"{reference} has no value{' other than itself' if itself else ''}")

    def _at(self, layers: Sequence[Value], path: Sequence[str]) -> Value | None:
        """The value at a path within mappings that lie over one another, the last first."""
        key, *rest = path
        within = [layer.entries.get(key, ()) for layer in reversed(layers) if isinstance(layer, Mapping)]
        entries = [entry for some in within for entry in some]
        first_open = next((index for index, entry in enumerate(entries) if entry.is_open), len(entries))
        self._relied_on.update(entries[first_open : first_open + 1])
        if rest:
            return self._at(self._layers(entries[:first_open], looks_back=True), rest)
        return self._of_key(entries[:first_open], looks_back=True)


def _known(value: Value | None, place: Place) -> Entry:
    return Entry([], place, value, is_known=True)


def _merged(layers: Sequence[Value]) -> Value:
    """Mappings that lie over one another, the last first, as one; any other value as it is."""
    if len(layers) == 1:
        return layers[0]
    merged = Mapping()
    for layer in reversed(layers):
        assert isinstance(layer, Mapping)
        merged.lay(layer)
    return merged
