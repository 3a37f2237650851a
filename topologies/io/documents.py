"""Documents in YAML, JSON and HOCON: strict reading, and errors with their place."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, Union, get_args, get_origin

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from windowing.errors import did_you_mean

if TYPE_CHECKING:  # a run of a topology needs no models: pydantic is slow to import
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

# Values of documents as text for errors.


def brief(value: object) -> str:
    """Returns a value as shown in errors, truncated if it is long."""
    if isinstance(value, dict | list) and not value:
        return "an empty mapping" if isinstance(value, dict) else "an empty list"
    if isinstance(value, dict):
        return "{" + ", ".join(map(str, list(value)[:6])) + (", ..." if len(value) > 6 else "") + "}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def kind_shown(value: object) -> str:
    """Returns the kind of a value, for errors about values that may be secret."""
    if isinstance(value, str):
        return "a text"
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else brief(value)


# Strict reading of JSON and YAML, as in all files of windbolt.


_DOUBLE_DIGITS = 17
"""Number of significant digits that identify any double. Further digits must be exact, or precision is lost."""
_LONGEST_SHOWN = 40


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the dict of these pairs. Raises ValueError for a repeated key."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} twice in one mapping")
    return mapping


def no_constant(name: str) -> None:
    """Raise ValueError for NaN and the infinities, which Python's reader would accept."""
    raise ValueError(f"{name}, which is not a number of JSON")


def exact_float(text: str) -> float:
    """Returns the double that a number with a fraction or exponent denotes. Raises ValueError if digits would be lost.

    Up to 17 digits may be those of the rounded double (0.1, 0.10000000000000001). Longer numbers must be exact.
    """
    value = float(text)
    digits = text.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    if not digits:
        return value
    if value not in (0.0, float("inf"), float("-inf")):
        if len(digits) <= 15 and abs(value) > 1e-300:
            return value  # a double has that many digits
        stated = Decimal(text)
        if len(digits) <= _DOUBLE_DIGITS and Decimal(f"{value:.{len(digits) - 1}e}") == stated:
            return value
        # Where the double is halfway between two spellings, the shortest one may be the other of the two (2 ** -24).
        if stated in (Decimal(value), Decimal(repr(value))):
            return value
    spelled = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    raise ValueError(
        f"the number {spelled} cannot be kept as it is: a double would make it {value!r}; send it as a text"
    )


class _Values(SafeConstructor, Resolver):
    """Constructor of JSON's types, with the scalars of YAML 1.2.

    YAML 1.1 would read ``6:00:03`` as 21603 and ``no`` as false, and would lose digits of times.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in known:
                    problem = f"the key {key.value!r} twice in one mapping"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                known.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Values.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Values.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF"))
_Values.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)$|0x[0-9a-fA-F]+$"), list("-+0123456789")
)
_Values.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_Values.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<$"), ["<"])


class Yaml(_Values, yaml.SafeLoader):
    """Reads YAML with the values of ``_Values``; its errors tell more than those of other readers."""


try:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]
except ImportError:  # PyYAML was built without libyaml
    FastYaml: Any = Yaml
else:

    class FastYaml(Composer, CParser, _Values):  # type: ignore[no-redef]
        """The YAML reader of libyaml, five times as fast. Its nodes are built in Python, so Python's recursion limit
        applies."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            _Values.__init__(self)


# Translates pydantic's errors into the terms of a document: the place, the value there, and the allowed values.


_MOST_LISTED = 25
"""Most keys that the error for an unknown key lists."""


@dataclass(frozen=True)
class Explained:
    """A problem at a place of a document."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.text}" if self.path else self.text


def explain(error: ValidationError, model: type[BaseModel]) -> list[Explained]:
    """Returns the problems of a document that does not follow a model, in the order of the document.

    Names, allowed keys and purposes (the descriptions of fields) come from the model. Values of a field that the
    ``repr`` leaves out are secret: only their kind is named.
    """
    return [problem for details in error.errors() for problem in _explained(details, model)]


def dotted(path: Sequence[str | int]) -> str:
    """Returns a path as text, such as ``format.output.schema[1].path``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _explained(details: ErrorDetails, model: type[BaseModel]) -> Iterator[Explained]:
    """Yields the problems in one of pydantic's errors, one for each of its lines."""
    spot = _spot(details["loc"], model)
    context = details.get("ctx", {})
    found = kind_shown(details["input"]) if spot.is_secret else brief(details["input"])
    match details["type"]:
        case "value_error":
            for line in str(context["error"]).split("\n"):
                yield Explained(spot.path, line)
        case "missing":
            yield Explained(spot.path, f"expected, and not there{_purpose(spot.field)}")
        case "extra_forbidden":
            yield Explained(spot.path, _unknown(spot, model))
        case "union_tag_not_found":
            wanted = f"expected a mapping with a type ({', '.join(tag for tags, _ in spot.models for tag in tags)})"
            yield Explained(spot.path, f"{wanted}, found {found}{_purpose(spot.field)}")
        case "union_tag_invalid":
            allowed = context["expected_tags"].replace("'", "").split(", ")
            yield Explained((*spot.path, "type"), _choice(allowed, context["tag"]))
        case "literal_error":
            allowed = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            yield Explained(spot.path, _choice(allowed, details["input"]))
        case kind:
            wanted = details["msg"] if details["msg"].startswith("expected ") else f"expected {_wanted(details)}"
            purpose = _purpose(spot.field) if kind.startswith("model_") else ""
            yield Explained(spot.path, f"{wanted}, found {found}{purpose}")


def _wanted(details: ErrorDetails) -> str:
    return _WANTED.get(details["type"], details["msg"])


_WANTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "greater_than_equal": "a number that is not negative",
    "bool_type": "true or false",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_Tagged: TypeAlias = "tuple[tuple[str, ...], type[BaseModel]]"
"""A model, and the tags by which a union of models selects it."""


@dataclass
class _Spot:
    """The place of an error in the document, and the model's facts about that place."""

    path: tuple[str | int, ...] = ()
    field: FieldInfo | None = None
    """The field that the path leads to; None if it is not a field."""
    models: Sequence[_Tagged] = ()
    """The models that a mapping at this place may follow."""
    within: type[BaseModel] | None = None
    """The model of the mapping that contains the place; None without one."""
    is_secret: bool = False


def _spot(location: tuple[int | str, ...], model: type[BaseModel]) -> _Spot:
    """Follow a location through the models. The tags that choose between models are not part of the document's path."""
    spot = _Spot()
    models: list[_Tagged] = [((), model)]
    items: Any = None
    for part in location:
        if len(models) > 1:
            models = [(tags, choice) for tags, choice in models if part in tags]
            continue
        spot.path, spot.field = (*spot.path, part), None
        kind = items
        if models:
            spot.within = models[0][1]
            spot.field = _fields(spot.within).get(str(part))
            spot.is_secret |= spot.field is not None and not spot.field.repr
            kind = spot.field.annotation if spot.field else None
        models, items = _within(kind)
    spot.models = models
    return spot


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Returns the fields of a model by the keys of the document."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _within(kind: Any) -> tuple[list[_Tagged], Any]:
    """Returns the models that a type allows, or the element type of its lists and mappings."""
    from pydantic import BaseModel, Tag

    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        models, items = _within(inner[0])
        tags = tuple(each.tag for each in inner[1:] if isinstance(each, Tag))
        return ([(tags, model) for _, model in models] if tags else models), items
    if origin in (Union, types.UnionType):
        parts = [_within(argument) for argument in inner if argument is not type(None)]
        return [model for models, _ in parts for model in models], next((items for _, items in parts if items), None)
    if origin in (list, dict):
        return [], inner[-1]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        named = kind.model_fields.get("type")
        return [(() if named is None else get_args(named.annotation), kind)], None
    return [], None


def _purpose(field: FieldInfo | None) -> str:
    return f": {field.description}" if field and field.description else ""


def _choice(allowed: list[str], found: object) -> str:
    wanted = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
    return f"expected {wanted}, found {brief(found)}{did_you_mean(found, allowed)}"


def _unknown(spot: _Spot, model: type[BaseModel]) -> str:
    """Describes a key that its mapping does not define."""
    assert spot.within is not None
    key, names = str(spot.path[-1]), list(_fields(spot.within))
    if spot.within is not model and issubclass(model, spot.within) and key in _fields(model):
        return "expected at the top of the file alone, where it holds for all steps"
    former = getattr(spot.within, "FORMER_KEYS", {})
    meant = f"; did you mean {former[key]!r}?" if key in former else did_you_mean(key, names)
    return f"unknown key{meant}" + (f" (allowed: {', '.join(names)})" if len(names) <= _MOST_LISTED else "")


# Files with documents in YAML, JSON and HOCON: yields each document, or its mistake, with its place.


_QUOTED = re.compile(r"(alias|anchor|tag|handle) '.*", re.DOTALL)
"""Matches the parts of YAML's errors that quote the file and may contain a value: ``password: *SECRET``."""


@dataclass(frozen=True)
class Document:
    """A document that was read, or the mistake that prevents reading it."""

    content: Any = None
    line: int | None = None
    """The line of the file where it begins, from 1; None if the whole file is one document."""
    index: int | None = None
    """Its index in a list of documents, from 0."""
    mistake: str = ""
    """Description of the mistake, with line and column if they are known; it quotes no values."""


def load(path: Path, endings: Collection[str], *, lists: bool = False) -> Iterator[Document]:
    """Yields the documents of a file. Its ending names its language: ``.yaml`` and ``.yml``, ``.json``, ``.jsonl`` (a
    document on each line), ``.conf`` and ``.hocon``; endings that are not in ``endings`` are refused.

    With ``lists``, the items of a list are documents by themselves. An empty file has no document. A repeated key in
    one mapping is a mistake. No exception is raised for the content of a file, nor for a missing file.
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
    if any(document.mistake for document in found):  # the slower reader has better messages
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
    """Returns the document in a text: a whole file, or one of its lines."""
    try:
        return Document(json.loads(text, object_pairs_hook=unique_pairs, parse_constant=no_constant), line)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno}" if line is None else f"column {error.colno}"
        what = error.msg.removesuffix(" starting at")  # for an unfinished text Python says where it starts
        return Document(None, line, mistake=f"expected JSON, found a mistake at {position}: {what}")
    except RecursionError:
        return Document(None, line, mistake="expected JSON, found it nested too deep")
    except ValueError as error:
        return Document(None, line, mistake=f"expected JSON, found {error}{_place_of_repeated_key(text, line)}")


def _place_of_repeated_key(text: str, line: int | None) -> str:
    """Returns the place of a repeated key, which the YAML reader reports and the JSON reader does not; empty if
    unknown."""
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
    from topologies.io.hocon import HoconError, parse_hocon

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
