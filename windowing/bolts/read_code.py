"""Inspection of users' code: whether a bolt asks its windows for expired events, the names in it, the methods that
nobody calls, and objects that hold themselves."""

from __future__ import annotations

import dis
import gc
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from copy import deepcopy
from functools import cached_property, lru_cache, partial, partialmethod, singledispatchmethod
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, TypeVar

from windowing.errors import USER_EXCEPTIONS, ConfigError, nearest

_NAMES = {"expired", "get_expired", "select_expired"}
_READS = {"LOAD_ATTR", "LOAD_METHOD"}
_LIBRARIES = {"numpy", "pandas", "pyarrow", "pyspark"}
_NOT_USERS = {"windowing", "policies", "manager", "topologies"} | _LIBRARIES | sys.stdlib_module_names
_WRAPPERS = (partial, partialmethod, cached_property, singledispatchmethod, type(lru_cache(len)))
"""Types that hold a function, but are not functions."""
_CONTAINERS = (Mapping, list, tuple, set, frozenset, deque, SimpleNamespace)
_CODE_HOLDERS = (FunctionType, type, property, MethodType, staticmethod, classmethod, *_WRAPPERS)
"""Types of the values that hold further functions."""
_MOST = 20_000
"""Greatest number of functions and values that are examined."""


def asks_for_expired(bolt: object) -> bool:
    """True if the bolt's code reads ``.expired``, ``.get_expired`` or ``.select_expired``.

    The search covers the methods of the bolt, and the functions that they name. An attribute of ``self`` with such a
    name does not count. Names that are put together at run time are not found.
    """
    functions = (value for value in islice(_reachable(bolt), _MOST) if _is_instance(value, FunctionType))
    return any(_reads(function.__code__) for function in functions if _is_users(function))


def names_in_code(bolt: object) -> frozenset[str] | None:
    """Returns the texts in the code of a bolt; None if the bolt holds too many values to be searched.

    These are the texts in its methods, in the functions that methods name, and in the values that functions and the
    bolt hold. So they include the columns that the bolt reads by name, even in code that has not run yet. Names that
    are put together at run time are not found.
    """
    names: set[str] = set()
    for visited, each in enumerate(_reachable(bolt, objects=True)):
        if visited >= _MOST:
            return None
        if issubclass(type(each), str):
            names.add(each)
        elif _is_instance(each, FunctionType) and _is_users(each):
            names.update(text for code in _nested_codes(each.__code__) for text in _texts(code.co_consts))
    return frozenset(names)


# Methods of a user's class that look like hooks but are not.


_LIKENESS = 0.75
"""Least likeness, for ``nearest``, of a name and its misspelling, such as ``on_time`` and ``on_timer``."""
_MOST_NEARBY = 5_000
"""Greatest number of values that are searched for the name of a method, the nearest first."""


def check_hooks(instance: object, hooks: Iterable[str]) -> None:
    """Raise ConfigError for a method of a user's class that is probably a hook with a misspelled name.

    Such a method is public and new in a class that derives from windbolt's. It can be called with the arguments of a
    hook that its class does not define, and its name is like the name of that hook. In classes with hooks ``on_...``,
    every name that begins with ``on_`` is like these hooks if one of its arguments has the name of one of theirs.

    No error is raised for a method that the user's code may call: its name, or the beginning of its name
    (``f"on_{kind}"``), is somewhere in the code of the classes or of their modules, or a decorator or a table holds it.
    """
    users = [each for each in type(instance).__mro__ if _is_users(each)]
    others = [each for each in type(instance).__mro__ if not _is_users(each)]
    by_name = {name: next((getattr(each, name) for each in others if hasattr(each, name)), None) for name in hooks}
    known = {name: hook for name, hook in by_name.items() if callable(hook)}
    bases = tuple(each for each in others if known.keys() & vars(each).keys())
    derived = [each for each in users if issubclass(each, bases)]
    inherited = {name for each in {*others, *users} - {*derived} for name in dir(each)}
    nearby: set[str] = set()
    beginnings: tuple[str, ...] = ()
    for kind in derived:
        undefined = known.keys() - vars(kind).keys() - getattr(instance, "__dict__", {}).keys()
        for name in [*vars(kind)]:
            if name.startswith("_") or name in inherited or not isinstance(vars(kind)[name], FunctionType):
                continue
            meant = _similar_hooks(vars(kind)[name], name, known, undefined)
            if meant and not nearby:
                nearby = _names_used_nearby(instance, users)
                cut = {re.split("[%{]", text, maxsplit=1)[0] for text in nearby}  # of on_{kind} and on_%s
                beginnings = tuple(each for each in cut if each.endswith("_"))
            if meant and name not in nearby and not name.startswith(beginnings):
                code, hooks_in_words = vars(kind)[name].__code__, " or ".join(meant)
                raise ConfigError(
                    f"{kind.__name__}.{name} is never called, at {code.co_filename}:{code.co_firstlineno}",
                    why=f"neither windbolt nor the code beside it does; windbolt calls {hooks_in_words}",
                    do=f"rename it to {hooks_in_words}; if it is your own, begin its name with an underscore: _{name}",
                )


def _similar_hooks(method: FunctionType, name: str, known: Mapping[str, Any], undefined: Set[str]) -> list[str]:
    """Returns the undefined hooks of which the name of a method may be a misspelling."""
    like, shared = nearest(name, known, len(known), _LIKENESS), 0
    if not like and name.startswith("on_") and any(hook.startswith("on_") for hook in known):
        like, shared = sorted(hook for hook in known if hook == "track" or hook.startswith("on_")), 1
    arguments = inspect.signature(method)
    meant = []
    for hook in [hook for hook in like if hook in undefined]:
        given = inspect.signature(known[hook]).parameters
        if len((given.keys() & arguments.parameters.keys()) - {"self"}) >= shared and _accepts(arguments, given):
            meant.append(hook)
    return meant


def _accepts(arguments: inspect.Signature, given: Iterable[str]) -> bool:
    try:
        arguments.bind(*given)
    except TypeError:
        return False
    return True


def _names_used_nearby(instance: object, users: list[type]) -> set[str]:
    """Returns the names by which the code of some classes and their modules may call a method.

    These are the names that the code loads, the texts in the code, and the names of functions that tables and other
    objects hold.
    """
    modules = [vars(sys.modules[each.__module__]) for each in users if each.__module__ in sys.modules]
    waiting = deque[Any]([instance, *users, *(value for space in modules for value in list(space.values()))])
    seen: dict[int, Any] = {}
    names: set[str] = set()
    while waiting and len(seen) < _MOST_NEARBY:
        value = waiting.popleft()
        kind = type(value)  # not isinstance, which may make a proxy resolve its object
        if id(value) in seen or (issubclass(kind, type | FunctionType) and not _is_users(value)):
            continue
        seen[id(value)] = value
        if issubclass(kind, type):
            waiting.extend(vars(value).values())
        elif kind is FunctionType:
            waiting.extend(_values_named_in(value))
            names.update(text for code in _nested_codes(value.__code__) for text in _texts_loaded(code))
        elif issubclass(kind, (property, MethodType, staticmethod, classmethod, *_WRAPPERS)):
            waiting.extend(_parts_of(value, objects=False))
        elif issubclass(kind, _CONTAINERS) or (_is_users(kind) and kind is not ModuleType):
            held = gc.get_referents(value)
            names.update(each.__name__ for each in held if type(each) is FunctionType)
            waiting.extend(filter(gc.is_tracked, held))  # numbers and texts hold nothing
    return names


def _texts_loaded(code: CodeType) -> Iterator[str]:
    """Yields the names and texts in code, except the names that the body of a class gives to its methods."""
    if code.co_flags & inspect.CO_OPTIMIZED:
        yield from (*code.co_names, *_texts(code.co_consts))
    else:
        for instruction in dis.get_instructions(code):
            if instruction.opname.startswith("LOAD"):
                yield from _texts(instruction.argval)


def is_users_class(kind: type) -> bool:
    """True for a class of the user, not of windbolt, a library or Python."""
    return _is_users(kind)


def _reachable(bolt: object, *, objects: bool = False) -> Iterator[Any]:
    """Yields the functions and classes that a bolt consists of, holds or names, and recursively those that the user's
    functions and classes hold or name; with ``objects`` also the contents of containers and other objects."""
    held = [value for name, value in vars(bolt).items() if name != "settings"]  # whose columns are known
    waiting: list[Any] = [*held, *_methods(type(bolt))]
    seen: dict[int, Any] = {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # an object that is kept keeps its id to itself
        yield value
        parts = _parts_of(value, objects)
        waiting.extend(parts if objects else [each for each in parts if _is_instance(each, _CODE_HOLDERS)])


def _parts_of(value: Any, objects: bool) -> Iterable[Any]:
    """Returns the values that a function of the user names, or that a class, property or wrapper holds; with
    ``objects`` also the contents of containers and other objects."""
    kind = type(value)
    parts: Iterable[Any] = ()
    if _is_instance(value, FunctionType):
        parts = _values_named_in(value) if _is_users(value) else ()
    elif issubclass(kind, type):
        users = [each for each in value.__mro__ if _is_users(each)] if _is_users(value) else ()
        parts = [member for each in users for member in vars(each).values()]
    elif issubclass(kind, property):
        parts = (value.fget,)
    elif issubclass(kind, MethodType):
        parts = (value.__func__, value.__self__) if objects else (value.__func__,)
    elif issubclass(kind, staticmethod | classmethod):
        parts = (value.__func__,)
    elif not issubclass(kind, ModuleType | CodeType) and (issubclass(kind, _WRAPPERS) or (objects and _is_open(kind))):
        parts = gc.get_referents(value)
    return parts


def _is_instance(value: Any, kinds: Any) -> bool:
    """True if a value is an instance of these types; False if ``isinstance`` fails, as for Flask's ``request`` while no
    request is served."""
    try:
        return isinstance(value, kinds)
    except Exception:
        return False


def _is_open(kind: type) -> bool:
    """True for the type of a container, and for types that are neither Python's nor a library's."""
    top = kind.__module__.partition(".")[0]
    return issubclass(kind, _CONTAINERS) or top not in sys.stdlib_module_names | _LIBRARIES


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts among the constants of code."""
    match value:
        case str():
            yield value
        case tuple() | frozenset():
            for each in value:
                yield from _texts(each)


def _methods(kind: type) -> Iterator[Any]:
    """Yields the methods of a class and its inherited methods, except those that are overridden without a call of
    ``super()``."""
    replaced: set[str] = set()
    for each in kind.__mro__:
        if not _is_users(each):
            continue
        for name, value in vars(each).items():
            if name in replaced:
                continue
            yield value
            if not _calls_super(value):
                replaced.add(name)


def _calls_super(method: Any) -> bool:
    """True if the code of a method, or of a function in it, names ``super``."""
    waiting, seen = [method], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or issubclass(type(value), type):
            continue
        seen.add(id(value))
        if not _is_instance(value, FunctionType):
            waiting.extend(_parts_of(value, objects=False))
        elif any("super" in code.co_names for code in _nested_codes(value.__code__)):
            return True
        else:
            waiting.extend(_wrapped(value))
    return False


def _is_users(value: Any) -> bool:
    return _is_users_module(str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")))


@lru_cache(maxsize=4096)
def _is_users_module(name: str) -> bool:
    top = name.partition(".")[0]
    return top == "__main__" or top not in _NOT_USERS


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


def _values_named_in(function: FunctionType) -> list[Any]:
    """Returns the values of the names in a function: globals, members of modules, its closure and its defaults."""
    names, space = _names(function.__code__), function.__globals__
    found: list[Any] = [space[name] if name in space else sys.modules.get(name) for name in names]
    modules, seen = found, set[str]()
    while modules:
        inside = []
        for module in modules:
            if issubclass(type(module), ModuleType) and _is_users(module) and module.__name__ not in seen:
                seen.add(module.__name__)
                inside += [vars(module)[name] for name in names if name in vars(module)]
        found, modules = found + inside, inside
    return [*found, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *_wrapped(function)]


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset(name for each in _nested_codes(code) for name in each.co_names)


def _wrapped(function: FunctionType) -> Iterator[Any]:
    """Yields the closure values and the attributes of a function, among them the function that a decorator wraps."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not filled yet
            continue
    yield from vars(function).values()


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested_codes(each)


# Objects that hold themselves, as in ``self.rule = self.by_day``: a copy holds itself as well, and not the first one.


Copy = TypeVar("Copy")


def rebound(made: Copy, first: object) -> Copy:
    """Has a copy of a user's object hold itself wherever the first object holds itself, and returns it. All else is
    shared, as before.

    Raises ConfigError for a function that refers to the first object, as a lambda does that names ``self``: copies of
    functions are the functions themselves.
    """
    held: dict[str, Any] = {} if made is first else getattr(made, "__dict__", {})
    own = {name: value for name, value in held.items() if name != "settings"}
    found, leading = _leading_to(first, made, own.values())
    if not leading:
        return made
    memo = {key: value for key, value in found.items() if key not in leading} | {id(first): made}
    for name, value in own.items():
        if id(value) not in leading:
            continue
        try:
            bound = deepcopy(value, memo)
        except USER_EXCEPTIONS:  # told where the whole object is copied
            continue
        if _leading_to(first, made, [bound])[1]:
            owner = type(first).__name__
            raise ConfigError(
                f"{owner} holds in self.{name} a function that refers to the {owner} itself",
                why="it would go on using this one, and not the copy that each task has",
                do=f"write a method, and hold that: self.{name} = self.its_name; or make the function in prepare()",
            )
        held[name] = bound
    return made


def _leading_to(wanted: object, made: object, values: Iterable[Any]) -> tuple[dict[int, Any], set[int]]:
    """Returns what values lead to, through methods, functions, containers and objects but ``made``, by its id, and the
    ids of all that leads to an object; the object itself is among these if it is found."""
    waiting, found, holders = list(values), dict[int, Any](), dict[int, list[int]]()
    while waiting and len(found) < _MOST_NEARBY:
        value = waiting.pop()
        if id(value) in found:
            continue
        found[id(value)] = value  # an object that is kept keeps its id to itself
        for part in () if value is wanted or value is made else _held_by(value):
            holders.setdefault(id(part), []).append(id(value))
            waiting.append(part)
    leading, ids = set[int](), [id(wanted)] if id(wanted) in found else []
    while ids:
        leading.add(each := ids.pop())
        ids += [holder for holder in holders.pop(each, ()) if holder not in leading]
    return found, leading


def _held_by(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is FunctionType:
        return (*_wrapped(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    leads_on = issubclass(kind, (MethodType, *_WRAPPERS)) or _is_open(kind)
    if not leads_on or issubclass(kind, type | ModuleType | CodeType):
        return ()
    return islice(filter(gc.is_tracked, gc.get_referents(value)), _MOST_NEARBY)  # numbers and texts hold nothing
