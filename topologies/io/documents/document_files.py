"""Files that hold documents, in YAML, JSON and HOCON: each document with its place, or with what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from topologies.io.documents.strict import FastYaml, Yaml, no_constant, unique_pairs

_QUOTED = re.compile(r"(alias|anchor|tag|handle) '.*", re.DOTALL)
"""Matches the parts of YAML's errors that quote the file and may contain a value: ``password: *SECRET``."""


@dataclass(frozen=True)
class Document:
    """A document that was read, or what keeps it from being read."""

    content: Any = None
    line: int | None = None
    """The line of the file in which it begins, from 1; None where the whole file is one document."""
    index: int | None = None
    """Its index in the list that it is an item of, from 0."""
    mistake: str = ""
    """What is wrong, with line and column where that is known; it quotes no values."""


def load(path: Path, endings: Collection[str], *, lists: bool = False) -> Iterator[Document]:
    """The documents of a file, whose ending says what language it is in: ``.yaml`` and ``.yml``, ``.json``, ``.jsonl``
    (a document a line), ``.conf`` and ``.hocon``; those in ``endings`` are read.

    With ``lists``, the items of a list are documents by themselves. No document is an empty file's. A key that stands
    twice in one mapping is a mistake. Nothing is raised for what a file holds, nor for one that is not there.
    """
    if path.suffix.lower() not in endings:
        found = path.suffix or "no ending"
        yield Document(mistake=f"expected a file that ends in one of {', '.join(endings)}, found {found}")
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        yield Document(mistake="expected a file, found none of this name")
    except OSError as error:
        yield Document(mistake=f"expected a file that can be read, found: {error.strerror}")
    except UnicodeDecodeError as error:
        yield Document(mistake=f"expected text in UTF-8, found byte {error.object[error.start]:#04x}")
    else:
        yield from _READERS[path.suffix.lower()](text, path, lists)


def _yaml(text: str, path: Path, lists: bool) -> Iterator[Document]:
    found = list(_read_yaml(FastYaml, text, lists))
    if any(document.mistake for document in found):  # which is worth a slower reader with better words
        found = list(_read_yaml(Yaml, text, lists))
    yield from found


def _read_yaml(reader: type[Yaml], text: str, lists: bool) -> Iterator[Document]:
    try:
        loader = reader(text)
    except yaml.YAMLError as error:
        yield Document(mistake=_yaml_mistake(error))
        return
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None and node.tag != "tag:yaml.org,2002:null":
                yield from _yaml_documents(loader, node, lists)
    except yaml.YAMLError as error:
        yield Document(mistake=_yaml_mistake(error))
    except RecursionError:
        yield Document(mistake="expected YAML, found it nested too deep")
    finally:
        loader.dispose()


def _yaml_documents(loader: Yaml, node: yaml.Node, lists: bool) -> Iterator[Document]:
    listed = lists and isinstance(node, yaml.SequenceNode)
    for index, item in enumerate(node.value if listed else [node]):
        line, at = item.start_mark.line + 1, index if listed else None
        try:
            yield Document(loader.construct_document(item), line, at)
        except yaml.YAMLError as error:
            yield Document(None, line, at, _yaml_mistake(error))
        except ValueError:
            yield Document(None, line, at, "expected YAML, found a number that cannot be read")


def _yaml_mistake(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"expected YAML, found {' '.join(str(error).split())}"
    position = "" if error.problem_mark is None else f" at {_position(error.problem_mark)}"
    problem = _QUOTED.sub(r"\1", str(error.problem))
    return f"expected YAML, found a mistake{position}: {problem}"


def _position(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _json(text: str, path: Path, lists: bool) -> Iterator[Document]:
    if text.strip():
        document = _json_document(text)
        if lists and isinstance(document.content, list):
            yield from (Document(item, index=index) for index, item in enumerate(document.content))
        else:
            yield document


def _json_lines(text: str, path: Path, lists: bool) -> Iterator[Document]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _json_document(line, number)


def _json_document(text: str, line: int | None = None) -> Document:
    """The document that a text holds, which is a whole file, or a line of one."""
    try:
        return Document(json.loads(text, object_pairs_hook=unique_pairs, parse_constant=no_constant), line)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}" if line is None else f"column {error.colno}"
        what = error.msg.removesuffix(" starting at")  # of a text without an end Python says where it starts
        return Document(None, line, mistake=f"expected JSON, found a mistake at {position}: {what}")
    except RecursionError:
        return Document(None, line, mistake="expected JSON, found it nested too deep")
    except ValueError as error:
        return Document(None, line, mistake=f"expected JSON, found {error}{_twice(text, line)}")


def _twice(text: str, line: int | None) -> str:
    """The place of a repeated key, which JSON's reader does not report and YAML's does; empty where it has no
    answer."""
    try:
        yaml.load(text, Yaml)
    except yaml.constructor.ConstructorError as error:
        mark = error.problem_mark
        if mark is not None:
            return f", at {_position(mark)}" if line is None else f", at column {mark.column + 1}"
    except (yaml.YAMLError, ValueError, RecursionError):
        pass
    return ""


def _hocon(text: str, path: Path, lists: bool) -> Iterator[Document]:
    from topologies.io.documents.hocon import parse_hocon
    from topologies.io.documents.hocon_values import HoconError

    try:
        yield Document(parse_hocon(text, path.absolute().parent))
    except HoconError as error:
        yield Document(mistake=f"expected HOCON, found a mistake: {error}")
    except RecursionError:
        yield Document(mistake="expected HOCON, found it nested too deep")


_READERS: dict[str, Callable[[str, Path, bool], Iterator[Document]]] = {
    ".conf": _hocon,
    ".hocon": _hocon,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".jsonl": _json_lines,
}
