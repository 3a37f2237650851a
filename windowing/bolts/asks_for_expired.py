"""Whether the code of a bolt asks its windows for what has expired, as far as that can be read off it."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windowing.bolts.windowed_bolt import WindowedBolt

_NAMES = {"expired", "get_expired"}
_READS = {"LOAD_ATTR", "LOAD_METHOD"}
_OURS = {"windowing", "policies", "manager", "topologies", "numpy", "pandas", "pyarrow"}


def asks_for_expired(bolt: WindowedBolt) -> bool:
    """Whether a method of the bolt, or a function that one of them names, reads ``.expired`` or ``.get_expired``.

    An attribute of ``self`` is another one. What is not found: names that are put together while running.
    """
    waiting: list[Any] = [*vars(bolt).values(), *_methods(type(bolt))]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        for function in _functions(found):
            if id(function) in seen:
                continue
            seen.add(id(function))
            if _reads(function.__code__):
                return True
            waiting.extend(_named(function))
    return False


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
