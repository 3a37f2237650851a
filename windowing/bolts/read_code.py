"""What can be read off the code of a bolt: whether it asks its windows for what has expired, and which names are in
it."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windowing.bolts.windowed_bolt import WindowedBolt

_NAMES = {"expired", "get_expired", "select_expired"}
_READS = {"LOAD_ATTR", "LOAD_METHOD"}
_OURS = {"windowing", "policies", "manager", "topologies", "numpy", "pandas", "pyarrow"}


def asks_for_expired(bolt: WindowedBolt) -> bool:
    """Whether a method of the bolt, or a function that one of them names, reads ``.expired``, ``.get_expired`` or
    ``.select_expired``.

    An attribute of ``self`` is another one. What is not found: names that are put together while running.
    """
    return any(_reads(found.__code__) for found in _reached(bolt) if isinstance(found, FunctionType))


def names_in_code(bolt: WindowedBolt) -> frozenset[str]:
    """The texts in a bolt's methods, in the functions that they name, and in what these and the bolt hold: among them
    are the columns that it asks for by name, also where it has not come to that yet.

    What is not found: names that are put together while running.
    """
    found: set[str] = set()
    for each in _reached(bolt):
        if isinstance(each, FunctionType):
            for code in _codes(each.__code__):
                found.update(_texts(code.co_consts))
        else:
            found.update(_texts(each))
    return frozenset(found)


def is_users_class(kind: type) -> bool:
    """True for a class that is not windbolt's own."""
    return _is_users(kind)


def _reached(bolt: WindowedBolt) -> Iterator[Any]:
    """The functions of the user's own that a bolt consists of or names, and the values that they name."""
    waiting: list[Any] = [*vars(bolt).values(), *_methods(type(bolt))]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        yield from () if isinstance(found, FunctionType) else (found,)
        for function in _functions(found):
            if id(function) in seen:
                continue
            seen.add(id(function))
            yield function
            waiting.extend(_named(function))


def _texts(value: Any, depth: int = 4) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping() if depth:
            for each in (*value.keys(), *value.values()):
                yield from _texts(each, depth - 1)
        case list() | tuple() | set() | frozenset() if depth:
            for each in value:
                yield from _texts(each, depth - 1)


def _methods(kind: type) -> Iterator[Any]:
    """The methods of a class, and those of its bases that it does not replace, or calls by ``super()``."""
    replaced: set[str] = set()
    for each in kind.__mro__:
        if not _is_users(each):
            continue
        for name, value in vars(each).items():
            if name in replaced:
                continue
            yield value
            codes = [code for function in _functions(value) for code in _codes(function.__code__)]
            if not any("super" in code.co_names for code in codes):
                replaced.add(name)


def _functions(found: Any) -> Iterator[FunctionType]:
    """The functions of the user's own behind a value: itself, a method's, a property's, those of a class."""
    match found:
        case FunctionType():
            if _is_users(found):
                yield found
        case MethodType() | staticmethod() | classmethod():
            yield from _functions(found.__func__)
        case property():
            yield from _functions(found.fget)
        case type() if _is_users(found):
            for value in vars(found).values():
                if not isinstance(value, type):
                    yield from _functions(value)


def _is_users(found: Any) -> bool:
    top = str(getattr(found, "__module__", "")).partition(".")[0]
    return top == "__main__" or top not in _OURS | sys.stdlib_module_names


@lru_cache(maxsize=1024)
def _reads(code: CodeType) -> bool:
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READS and instruction.argval in _NAMES:
            of_self = before is not None and before.opname.startswith("LOAD_FAST") and before.argval == "self"
            if not of_self:
                return True
        before = instruction
    return any(_reads(each) for each in code.co_consts if isinstance(each, CodeType))


def _named(function: FunctionType) -> Iterator[Any]:
    """What the names of a function stand for: globals, what it closes over, and defaults."""
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not filled yet
            continue
    yield from function.__defaults__ or ()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
