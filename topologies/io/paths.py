"""Paths of input: a file, a folder, or a pattern; the same on both engines and all file systems."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, dropwhile, takewhile
from typing import NamedTuple, Protocol

import pyarrow.fs as pafs

from manager.remote import endpoint_of, place_name, root_and_path
from manager.storage.hdfs import cluster_name
from manager.storage.object_store import is_object_store, open_uri
from topologies.io.formats.event_files import as_unreachable_error

# Paths and their file systems.


def locate(path: str) -> tuple[pafs.FileSystem, str, str | None]:
    """Returns the file system of a path or URI, the path inside it, and the URI of its root; None for the local
    root."""
    path = shown_path(path)
    if "://" not in path:
        return pafs.LocalFileSystem(), path, None
    filesystem, inside = open_uri(path)
    return filesystem, inside, path


def locate_file(path: str) -> tuple[pafs.FileSystem, str]:
    """Returns the file system of a listed file, and the path inside it. A question mark in the name does not begin
    options."""
    path = shown_path(path)
    return open_uri(path, options=False) if "://" in path else (pafs.LocalFileSystem(), path)


def shown_path(path: str) -> str:
    """Returns a path in windbolt's form (``place_name``): absolute, without the scheme that Spark adds to local
    paths."""
    path = place_name(path)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)


# What a path of input stands for: a file, a folder, or a pattern; the same on both engines and all file systems.
#
# The rule, which docs/paths.md gives users:
#
# - Only what the user wrote may be a pattern: not the current folder before a relative path, nor the root of a store.
# - Each part between slashes stands for the file or folder of exactly that name, if there is one and the part has no
#   ``*`` or ``?``. Otherwise ``*``, ``?``, ``[ab]``, ``[!ab]`` and ``{a,b}`` match names. ``[[]`` is a bracket.
# - A part ``**`` matches any number of folders, also none: ``logs/**/*.jsonl``, ``logs/**``. Links to folders and
#   folders
#   that are passed over are not among them.
# - A file that is named or matched is read. Of a folder, the files in it are, and those in its partition folders
#   (``dt=2024-01-01/hour=6/``), not those in its other subfolders.
# - Names that begin with ``_`` or ``.``, or end in ``._COPYING_``, ``.tmp`` or ``.crc``, are passed over, of files
#   always, of folders unless they are named.


PASSED_OVER = ("._COPYING_", ".tmp", ".crc")
"""Endings of names of files that are incomplete, or not input."""
_ANY_FOLDERS = "**"
_HDFS_SCHEMES = ("hdfs://", "viewfs://")
_DEFAULT_HDFS = "hdfs://"
"""The default HDFS, if no configuration names its cluster."""
_AT_ONCE = 16
"""Number of folders of a store that are listed concurrently."""
_MAGIC = re.compile(r"[*?\[{\\]")
_WILD = re.compile(r"[*?]")
_ESCAPED = re.compile(r"(?:[^*?\[{\\]|\\.|\[[^!^\]]\])*", re.DOTALL)
"""Matches a part whose special characters are all in brackets or after a backslash, so that it is a plain name."""


class Entry(NamedTuple):
    """A file or a folder in a listing."""

    path: str
    """Absolute path or URI."""
    is_folder: bool
    info: pafs.FileInfo | None
    """Size and time, if the listing has them, as in stores."""


def is_never_input(path: str) -> bool:
    """True for a file whose name excludes it from input."""
    name = os.path.basename(path)
    return name.startswith(("_", ".")) or name.endswith(PASSED_OVER)


def is_partition(name: str) -> bool:
    """True for the name of a partition folder, such as ``dt=2024-01-01``."""
    return "=" in name and not name.startswith((".", "=")) and not name.endswith(PASSED_OVER)


def matching_entries(paths: Iterable[str], working_folder: str | None = None) -> Iterator[Entry]:
    """Yields the entries that paths match, each once, in no order. They include files whose names exclude them from
    input, and entries that are not regular files. ``working_folder``: the folder of relative paths; None for the
    current one.

    Raises UnreachableError for a folder that cannot be listed.
    """
    seen: set[str] = set()
    for parsed in (_parse(path, working_folder) for path in paths):
        folders = _folders(parsed.root)
        for base, parts in parsed.variants:
            matched = _matches(folders, base, parts)
            subfolders = [entry.path for entry in matched if entry.is_folder]
            within = _files_in(folders, subfolders, below=parts[-1:] != (_ANY_FOLDERS,))
            for each in chain((entry for entry in matched if not entry.is_folder), within):
                if each.path not in seen:
                    seen.add(each.path)
                    yield each


def path_before_pattern(path: str) -> tuple[str, bool]:
    """Returns the absolute part of a path before its first pattern; and True if there is a pattern.

    Raises UnreachableError if the file system cannot be reached.
    """
    parsed = _parse(path)
    folders = _folders(parsed.root)
    variants = [_before_pattern(folders, base, parts) for base, parts in parsed.variants]
    if len(variants) == 1:
        return variants[0]
    shared = takewhile(
        lambda parts: len(set(parts)) == 1, zip(*(path.split("/") for path, _ in variants), strict=False)
    )
    return "/".join(parts[0] for parts in shared) or "/", True


def entry_at(path: str) -> Entry | None:
    """Returns the entry at this absolute path or URI, taken literally; None if there is none."""
    return _folders(_parse(path).root).entry_at(path)


def folders_before(path: str, file: str) -> list[tuple[str, str]]:
    """Returns the folders where an earlier run may have been started, each with the matching folder of this run.

    Only for a file named by a relative path, whose meaning depends on the folder of the start. Empty for other files.
    """
    if "://" in place_name(path) or path.startswith(("/", "file:", "dbfs:")):
        return []
    names = file.split("/")[1:]
    starts: list[tuple[str, str]] = []
    for base, parts in _parse(path).variants:
        fewest = max(len(parts) - parts.count(_ANY_FOLDERS), 1)
        for number in range(fewest, len(names) + 1):
            before, tail = names[: len(names) - number], names[len(names) - number :]
            if _may_match(parts, tail):
                starts.append(("".join(f"/{name}" for name in before), base))
    return starts


def literal(name: str) -> str:
    """Returns a pattern that matches only this name."""
    return re.sub(r"[*?\[{\\]", lambda found: "\\\\" if found[0] == "\\" else f"[{found[0]}]", name)


# A canonical name for each file or folder, however its path was written.


class Place(NamedTuple):
    """A file or folder. Two paths to the same file give equal places: links are resolved, spellings unified, keys
    removed."""

    store: str
    """The file system: "" for the local one. For a store outside Amazon and Google, the endpoint is an option in it."""
    path: str
    """The absolute path in the file system."""

    def __str__(self) -> str:
        store, sign, endpoint = self.store.partition("?")
        return f"{store}{self.path}{sign}{endpoint}"

    def below(self, name: str) -> Place:
        """Returns the file of this name in the folder."""
        return Place(self.store, f"{self.path.rstrip('/')}/{name}")


def canonical_place(path: str) -> Place:
    """Returns the place of a path without patterns, such as a sink's folder."""
    path = shown_path(path)
    if "://" not in path:
        return Place("", os.path.realpath(path))
    root, inside = root_and_path(path)
    return Place(_store(root), os.path.normpath(f"/{inside.lstrip('/')}"))


def files_matched_by(paths: Iterable[str], files: Collection[Place]) -> set[Place]:
    """Returns the files in ``files`` that a user's input paths can match, whatever other files exist.

    Links are followed in the part of a path before its first pattern, and where the pattern matches links.
    """
    read: set[Place] = set()
    for folder, parts in chain.from_iterable(map(_starting_folders, paths)):
        read |= {file for file in files if file not in read and _may_match_place(folder, parts, file)}
        if len(read) == len(set(files)):
            break
    return read


def _starting_folders(path: str) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Yields the folders in which a path may match files, each with the parts of the path below it."""
    parsed = _parse(path)
    for base, parts in parsed.variants:
        if parsed.root is None:
            yield from ((Place("", folder), rest) for folder, rest in _without_links(base or "/", parts))
        else:
            yield Place(_store(parsed.root), "/"), parts


def _may_match_place(folder: Place, parts: Sequence[str], file: Place) -> bool:
    """True if these parts, below a folder, may match a file."""
    stores = {folder.store, file.store}
    # Without a default HDFS in the configuration, hdfs:/// may be any of them.
    if len(stores) > 1 and not (_DEFAULT_HDFS in stores and all(each.startswith(_HDFS_SCHEMES) for each in stores)):
        return False
    if folder.path == file.path:
        return not parts
    start = folder.path.rstrip("/") + "/"
    return file.path.startswith(start) and _may_match(parts, file.path[len(start) :].split("/"))


def _store(root: str) -> str:
    """Returns the name of a remote file system, from the URI of its root."""
    scheme, _, authority = root.partition("?")[0].lower().partition("://")
    user, _, host = authority.rstrip("/").rpartition("@")
    if scheme in ("abfs", "abfss"):
        return f"abfs://{user.partition(':')[0]}@{host}"
    if scheme in ("hdfs", "viewfs"):
        return f"{scheme}://{cluster_name(host) if scheme == 'hdfs' else host}"
    endpoint = endpoint_of(root)
    return f"{scheme}://{host}{f'?endpoint_override={endpoint}' if endpoint else ''}"


def _without_links(folder: str, parts: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the local folders, with links resolved, in which a path may match files, each with the parts below it."""
    while parts and _ESCAPED.fullmatch(parts[0]):
        folder, parts = os.path.join(folder, _unescaped(parts[0])), parts[1:]
    folder = os.path.realpath(folder)
    yield folder, parts
    below = tuple(dropwhile(lambda part: part == _ANY_FOLDERS, parts))
    for link in _links(folder):
        if below and _part_may_match(below[0], os.path.basename(link)):
            yield from _without_links(link, below[1:])
        elif not parts and is_partition(os.path.basename(link)):
            yield os.path.realpath(link), ()


def _links(folder: str) -> list[str]:
    """Returns the links to folders in a folder; empty if it cannot be listed, which is reported when it is read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_symlink() and _is_folder(entry)]
    return []


@dataclass(frozen=True)
class _Path:
    """A path as a user wrote it."""

    root: str | None
    """The URI of its file system; None for the local one."""
    variants: tuple[tuple[str, tuple[str, ...]], ...]
    """The root or working folder where the path begins, and the parts after it, between slashes. Several, if
    alternatives contain slashes: ``{a/b,c}``."""


def _parse(path: str, working_folder: str | None = None) -> _Path:
    path = place_name(path)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        root, inside = root_and_path(path)
        return _Path(
            root, tuple((_root_uri(root), _normalized([], variant)[1]) for variant in _expand_alternatives(inside))
        )
    before = [] if path.startswith("/") else (working_folder or os.getcwd()).strip("/").split("/")
    variants = [_normalized(before, variant) for variant in _expand_alternatives(path)]
    return _Path(None, tuple(("".join(f"/{part}" for part in before[:kept]), parts) for kept, parts in variants))


def _root_uri(root: str) -> str:
    """Returns the URI of a file system as paths use it: without options and without the keys of a bucket."""
    scheme, _, authority = root.partition("?")[0].rstrip("/").partition("://")
    return f"{scheme}://{authority.rpartition('@')[2] if scheme == 's3' else authority}"


def _normalized(before: list[str], variant: str) -> tuple[int, tuple[str, ...]]:
    """Returns how many of the folders ``before`` a path keeps, and its parts after them, without dots."""
    kept_folders, parts = len(before), list[str]()
    for part in _split(variant, "/"):
        if part == "..":
            if parts:
                parts.pop()
            else:
                kept_folders = max(kept_folders - 1, 0)
        elif part not in ("", "."):
            parts.append(part)
    return kept_folders, tuple(parts)


def _expand_alternatives(path: str) -> list[str]:
    """Returns a path once for each choice among its alternatives that contain a slash."""
    at = 0
    while at < len(path):
        end = _end(path, at)
        if path[at] == "{" and "/" in path[at:end]:
            choices = _split(path[at + 1 : end - 1], ",")
            return [one for choice in choices for one in _expand_alternatives(path[:at] + choice + path[end:])]
        at = end
    return [path]


def _split(text: str, sign: str) -> list[str]:
    """Returns a text split at each ``sign`` outside brackets and alternatives."""
    parts, start, at = list[str](), 0, 0
    while at < len(text):
        if text[at] == sign:
            parts.append(text[start:at])
            start = at + 1
        at = _end(text, at)
    return [*parts, text[start:]]


def _end(text: str, at: int) -> int:
    """Returns where the piece at ``at`` ends: an escaped character, brackets, alternatives, or one character.

    An unclosed bracket or brace, and a trailing backslash, stand for themselves.
    """
    match text[at]:
        case "\\":
            return at + 1 if text[at + 1 : at + 2] in ("", "/") else at + 2
        case "[":
            first = at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1
            end = text.find("]", first + 1)
            return at + 1 if end < 0 or "/" in text[at:end] else end + 1
        case "{":
            inside = at + 1
            while inside < len(text) and text[inside] != "}":
                inside = _end(text, inside)
            return at + 1 if inside >= len(text) else inside + 1
    return at + 1


def _regex(part: str, hiding: str = "") -> str:
    """Returns the regular expression for the names that a part matches; ``hiding`` is put before a leading star."""
    patterns, at = list[str](), 0
    while at < len(part):
        end = _end(part, at)
        piece, first, at = part[at:end], hiding if at == 0 else "", end
        match piece[0]:
            case "*":
                patterns.append(f"{first}.*")
            case "?":
                patterns.append(f"{first}.")
            case "\\" if len(piece) > 1:
                patterns.append(re.escape(piece[1]))
            case "[" if len(piece) > 1:
                patterns.append(_class(piece[1:-1]))
            case "{" if len(piece) > 1:
                choices = [_regex(choice, first) for choice in _split(piece[1:-1], ",")]
                patterns.append(f"(?:{'|'.join(choices)})")
            case _:
                patterns.append(re.escape(piece))
    return "".join(patterns)


def _class(inside: str) -> str:
    """Returns the regular expression for the text in brackets."""
    negated = inside[0] in "!^" and len(inside) > 1
    chars = re.findall(r"\\?.", inside[negated:], re.DOTALL)
    ranges, at = list[str](), 0
    while at < len(chars):
        low = high = chars[at][-1]
        at += 1
        if chars[at : at + 1] == ["-"] and at + 1 < len(chars):
            high = chars[at + 1][-1]
            at += 2
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if not ranges:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(ranges)}]"


@lru_cache(256)
def _compiled(part: str) -> re.Pattern[str]:
    return re.compile(_regex(part), re.DOTALL)


@lru_cache(256)
def _compiled_visible(part: str) -> re.Pattern[str]:
    """Compiles a part so that no star or question mark matches a leading ``_`` or dot."""
    return re.compile(_regex(part, hiding="(?![_.])"), re.DOTALL)


class _Folders(Protocol):
    """Interface to the folders of a file system. Paths are absolute, or URIs."""

    def entry_at(self, path: str) -> Entry | None:
        """Returns the entry at a path; None if there is none."""

    def entries(self, folder: str) -> list[Entry]:
        """Returns the entries of a folder; none if it does not exist or is not a folder."""

    def map_folders(self, entry_at: Callable[[str], list[Entry]], paths: Sequence[str]) -> Iterable[list[Entry]]:
        """Returns the results of ``entry_at`` for several paths, in order."""


def _folders(root: str | None) -> _Folders:
    return _LocalFolders() if root is None else _RemoteFolders(root)


class _LocalFolders:
    """The local file system."""

    def entry_at(self, path: str) -> Entry | None:
        with as_unreachable_error(path):
            try:
                os.lstat(path)
                return Entry(path, os.path.isdir(path), None)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def entries(self, folder: str) -> list[Entry]:
        with as_unreachable_error(folder):
            try:
                with os.scandir(folder) as entries:
                    return [Entry(each.path, _is_folder(each), None) for each in entries]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def map_folders(self, entry_at: Callable[[str], list[Entry]], paths: Sequence[str]) -> Iterable[list[Entry]]:
        return map(entry_at, paths)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a dangling link, a circle of links, or no permission
        return False


class _RemoteFolders:
    """The file system of a store, or of HDFS."""

    def __init__(self, root: str) -> None:
        self._root, self._is_store = _root_uri(root), is_object_store(root)
        with as_unreachable_error(root):
            self._filesystem, self._top = open_uri(root)

    def entry_at(self, path: str) -> Entry | None:
        with as_unreachable_error(path):
            info = self._filesystem.get_file_info(self._path_in_store(path))
        return None if info.type == pafs.FileType.NotFound else self._entry(info)

    def entries(self, folder: str) -> list[Entry]:
        with as_unreachable_error(folder):
            try:
                selector = pafs.FileSelector(self._path_in_store(folder), allow_not_found=True)
                return [self._entry(info) for info in self._filesystem.get_file_info(selector)]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def map_folders(self, entry_at: Callable[[str], list[Entry]], paths: Sequence[str]) -> Iterable[list[Entry]]:
        # Several at a time, since each waits for the store. One request for everything below a folder would also list
        # folders without input, of any size.
        if len(paths) < 2 or not self._is_store:
            return map(entry_at, paths)
        with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as threads:
            return list(threads.map(entry_at, paths))

    def _path_in_store(self, path: str) -> str:
        return (self._top.rstrip("/") + path.removeprefix(self._root)) or "/"

    def _entry(self, info: pafs.FileInfo) -> Entry:
        inside = info.path.removeprefix(self._top.rstrip("/")).strip("/")
        return Entry(f"{self._root}/{inside}", info.type == pafs.FileType.Directory, info)


def _matches(folders: _Folders, base: str, parts: tuple[str, ...]) -> list[Entry]:
    """Returns the files and folders that match all parts."""
    entries = [Entry(base or "/", True, None)]
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        parents = [entry.path for entry in entries if entry.is_folder]
        if part == _ANY_FOLDERS:
            entries = _folders_below(folders, parents)
        else:
            entries = list(
                chain.from_iterable(folders.map_folders(partial(_matches_in, folders, part, is_last), parents))
            )
    return entries


def _folders_below(folders: _Folders, parents: Iterable[str]) -> list[Entry]:
    """Returns folders and everything in them, at any depth, without repeats. Links are not followed, because their
    files would be read twice."""
    level = list(dict.fromkeys(parents))
    paths = dict.fromkeys(level)
    while level:
        inside = chain.from_iterable(folders.map_folders(partial(_folders_in, folders), level))
        level = [entry.path for entry in inside if entry.path not in paths]
        paths.update(dict.fromkeys(level))
    return [Entry(path, True, None) for path in paths]


def _folders_in(folders: _Folders, folder: str) -> list[Entry]:
    return [
        entry
        for entry in folders.entries(folder)
        if entry.is_folder
        and not _is_link(entry.path)
        and (is_partition(name := _name(entry.path)) or not is_never_input(name))
    ]


def _matches_in(folders: _Folders, part: str, is_last: bool, folder: str) -> list[Entry]:
    """Returns the entries of a folder that match a part. A plain name before the last part is not looked up."""
    named = _path_of_name(folders, folder, part)
    if named is not None:
        if not is_last:
            return [Entry(named, True, None)]
        entry = folders.entry_at(named)
        return [] if entry is None else [entry]
    pattern = _compiled(part)
    return [
        entry
        for entry in folders.entries(folder)
        if pattern.fullmatch(name := _name(entry.path))
        and (not entry.is_folder or is_partition(name) or not is_never_input(name) or _asks_for_excluded(part, name))
    ]


def _asks_for_excluded(part: str, name: str) -> bool:
    """True if a pattern asks for names that are normally left out because of how they begin or end, such as ``_*``,
    ``{_a,c}`` or ``*.tmp``."""
    ends = [end for end in PASSED_OVER if name.endswith(end)]
    return _compiled_visible(part).fullmatch(name) is not None and (not ends or any(end in part for end in ends))


def _path_of_name(folders: _Folders, folder: str, part: str) -> str | None:
    """Returns the path that a part names; None if the part is a pattern."""
    path = f"{folder.rstrip('/')}/{part}"
    if _MAGIC.search(part) is None:
        return path
    if _WILD.search(part) is None and folders.entry_at(path) is not None:
        return path
    if _ESCAPED.fullmatch(part) is None:
        return None
    return f"{folder.rstrip('/')}/{_unescaped(part)}"


def _may_match(parts: Sequence[str], names: Sequence[str]) -> bool:
    """True if a path of these parts may match the file with these names, whatever else exists."""
    if not parts:
        return all(map(is_partition, names[:-1]))
    if parts[0] == _ANY_FOLDERS:
        within = len(list(takewhile(lambda name: not is_never_input(name), names)))
        most = min(within, len(names) - (len(parts) == 1))
        return any(_may_match(parts[1:], names[number:]) for number in range(most + 1))
    return bool(names) and _part_may_match(parts[0], names[0]) and _may_match(parts[1:], names[1:])


def _part_may_match(part: str, name: str) -> bool:
    """True if a part may match a name, whatever else exists."""
    if part == name or _compiled(part).fullmatch(name) is None:
        return part == name
    return not is_never_input(name) or _asks_for_excluded(part, name)


def _unescaped(part: str) -> str:
    return re.sub(r"\\(.)|\[(.)\]", r"\1\2", part, flags=re.DOTALL)


def _before_pattern(folders: _Folders, base: str, parts: tuple[str, ...]) -> tuple[str, bool]:
    path = base or "/"
    for part in parts:
        named = _path_of_name(folders, path, part)
        if named is None:
            return path, True
        path = named
    return path, False


def _files_in(folders: _Folders, paths: list[str], *, below: bool) -> Iterator[Entry]:
    """Yields the files in folders; with ``below`` also those in their partition folders, which ``**`` has already
    found."""
    while paths:
        partitions: list[str] = []
        for entry in chain.from_iterable(folders.map_folders(folders.entries, paths)):
            if not entry.is_folder:
                yield entry
            elif below and is_partition(_name(entry.path)) and not _is_link_to_ancestor(entry.path):
                partitions.append(entry.path)
        paths = partitions


def _is_link_to_ancestor(folder: str) -> bool:
    """True for a link to a folder that contains the link, also through other links: its files would be listed
    endlessly."""
    if not _is_link(folder):
        return False
    target, above = os.path.realpath(folder), os.path.dirname(folder)
    while os.path.commonpath([os.path.realpath(above), target]) != target:
        if above == os.path.dirname(above):
            return False
        above = os.path.dirname(above)
    return True


def _is_link(folder: str) -> bool:
    return "://" not in folder and os.path.islink(folder)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[1]
