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

_EXPIRED_NAMES = {"expired", "get_expired", "select_expired"}
_READ_OPERATIONS = {"LOAD_ATTR", "LOAD_METHOD"}
_LIBRARIES = {"numpy", "pandas", "pyarrow", "pyspark"}
_NOT_USERS = {"windowing", "policies", "manager", "topologies"} | _LIBRARIES | sys.stdlib_module_names
_WRAPPERS = (partial, partialmethod, cached_property, singledispatchmethod, type(lru_cache(len)))
"""Types that hold a function, but are not functions."""
_CONTAINERS = (Mapping, list, tuple, set, frozenset, deque, SimpleNamespace)
_CODE_HOLDERS = (FunctionType, type, property, MethodType, staticmethod, classmethod, *_WRAPPERS)
"""Types of the values that hold further functions."""
_MOST_EXAMINED = 20_000
"""Greatest number of functions and values that are examined."""


def asks_for_expired(bolt: object) -> bool:
    """True if the bolt's code reads ``.expired``, ``.get_expired`` or ``.select_expired``.

    The search covers the methods of the bolt, and the functions that they name. An attribute of ``self`` with such a
    name does not count. Names that are put together at run time are not found.
    """
    functions = (value for value in islice(_reachable(bolt), _MOST_EXAMINED) if _is_instance(value, FunctionType))
    return any(_reads_expired(function.__code__) for function in functions if _is_users(function))


def names_in_code(bolt: object) -> frozenset[str] | None:
    """Returns the texts in the code of a bolt; None if the bolt holds too many values to be searched.

    These are the texts in its methods, in the functions that methods name, and in the values that functions and the
    bolt hold. So they include the columns that the bolt reads by name, even in code that has not run yet. Names that
    are put together at run time are not found.
    """
    names: set[str] = set()
    for visited, each in enumerate(_reachable(bolt, objects=True)):
        if visited >= _MOST_EXAMINED:
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

    Such a method is public, and no base class has it. It can be called with the arguments of a hook that its class does
    not define, and its name is similar to the name of that hook. In classes with hooks ``on_...``, a name that begins
    with ``on_`` counts as similar if the method and the hook have an argument of the same name.

    No error is raised for a method that the user's code may call: its name, or the beginning of its name
    (``f"on_{kind}"``), is somewhere in the code of the classes or of their modules, or a decorator or a table holds it.
    """
    user_classes = [each for each in type(instance).__mro__ if _is_users(each)]
    windbolt_classes = [each for each in type(instance).__mro__ if not _is_users(each)]
    by_name = {
        name: next((getattr(each, name) for each in windbolt_classes if hasattr(each, name)), None) for name in hooks
    }
    known_hooks = {name: hook for name, hook in by_name.items() if callable(hook)}
    bases = tuple(each for each in windbolt_classes if known_hooks.keys() & vars(each).keys())
    derived = [each for each in user_classes if issubclass(each, bases)]
    inherited = {name for each in {*windbolt_classes, *user_classes} - {*derived} for name in dir(each)}
    names_nearby: set[str] = set()
    beginnings: tuple[str, ...] = ()
    for kind in derived:
        undefined = known_hooks.keys() - vars(kind).keys() - getattr(instance, "__dict__", {}).keys()
        for name in [*vars(kind)]:
            if name.startswith("_") or name in inherited or not isinstance(vars(kind)[name], FunctionType):
                continue
            similar = _similar_hooks(vars(kind)[name], name, known_hooks, undefined)
            if similar and not names_nearby:
                names_nearby = _names_used_nearby(instance, user_classes)
                starts = {re.split("[%{]", text, maxsplit=1)[0] for text in names_nearby}  # of on_{kind} and on_%s
                beginnings = tuple(each for each in starts if each.endswith("_"))
            if similar and name not in names_nearby and not name.startswith(beginnings):
                code, hooks_in_words = vars(kind)[name].__code__, " or ".join(similar)
                raise ConfigError(
                    f"{kind.__name__}.{name} is never called, at {code.co_filename}:{code.co_firstlineno}",
                    why=f"neither windbolt nor the code beside it does; windbolt calls {hooks_in_words}",
                    do=f"rename it to {hooks_in_words}; if it is your own, begin its name with an underscore: _{name}",
                )


def _similar_hooks(method: FunctionType, name: str, known_hooks: Mapping[str, Any], undefined: Set[str]) -> list[str]:
    """Returns the hooks in ``undefined`` whose names the name of a method may misspell."""
    candidates, least_shared = nearest(name, known_hooks, len(known_hooks), _LIKENESS), 0
    if not candidates and name.startswith("on_") and any(hook.startswith("on_") for hook in known_hooks):
        candidates, least_shared = sorted(hook for hook in known_hooks if hook == "track" or hook.startswith("on_")), 1
    arguments = inspect.signature(method)
    similar = []
    for hook in [hook for hook in candidates if hook in undefined]:
        hook_arguments = inspect.signature(known_hooks[hook]).parameters
        if len((hook_arguments.keys() & arguments.parameters.keys()) - {"self"}) >= least_shared and _accepts(
            arguments, hook_arguments
        ):
            similar.append(hook)
    return similar


def _accepts(arguments: inspect.Signature, hook_arguments: Iterable[str]) -> bool:
    try:
        arguments.bind(*hook_arguments)
    except TypeError:
        return False
    return True


def _names_used_nearby(instance: object, user_classes: list[type]) -> set[str]:
    """Returns the names by which the code of some classes and their modules may call a method.

    These are the names that the code loads, the texts in the code, and the names of functions that tables and other
    objects hold.
    """
    modules = [vars(sys.modules[each.__module__]) for each in user_classes if each.__module__ in sys.modules]
    waiting = deque[Any]([instance, *user_classes, *(value for space in modules for value in list(space.values()))])
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
            waiting.extend(_values_held_by(value, objects=False))
        elif issubclass(kind, _CONTAINERS) or (_is_users(kind) and kind is not ModuleType):
            referents = gc.get_referents(value)
            names.update(each.__name__ for each in referents if type(each) is FunctionType)
            waiting.extend(filter(gc.is_tracked, referents))  # numbers and texts hold nothing
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
    attributes = [value for name, value in vars(bolt).items() if name != "settings"]  # whose columns are known
    waiting: list[Any] = [*attributes, *_methods(type(bolt))]
    seen: dict[int, Any] = {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value  # an object that is kept keeps its id to itself
        yield value
        parts = _values_held_by(value, objects)
        waiting.extend(parts if objects else [each for each in parts if _is_instance(each, _CODE_HOLDERS)])


def _values_held_by(value: Any, objects: bool) -> Iterable[Any]:
    """Returns the values that a function of the user names, or that a class, property or wrapper holds; with
    ``objects`` also the contents of containers and other objects."""
    kind = type(value)
    parts: Iterable[Any] = ()
    if _is_instance(value, FunctionType):
        parts = _values_named_in(value) if _is_users(value) else ()
    elif issubclass(kind, type):
        user_classes = [each for each in value.__mro__ if _is_users(each)] if _is_users(value) else ()
        parts = [member for each in user_classes for member in vars(each).values()]
    elif issubclass(kind, property):
        parts = (value.fget,)
    elif issubclass(kind, MethodType):
        parts = (value.__func__, value.__self__) if objects else (value.__func__,)
    elif issubclass(kind, staticmethod | classmethod):
        parts = (value.__func__,)
    elif not issubclass(kind, ModuleType | CodeType) and (
        issubclass(kind, _WRAPPERS) or (objects and _may_hold_user_code(kind))
    ):
        parts = gc.get_referents(value)
    return parts


def _is_instance(value: Any, kinds: Any) -> bool:
    """True if a value is an instance of these types. False if ``isinstance`` raises an error, as it does for Flask's
    ``request`` while no request is served."""
    try:
        return isinstance(value, kinds)
    except Exception:
        return False


def _may_hold_user_code(kind: type) -> bool:
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
            waiting.extend(_values_held_by(value, objects=False))
        elif any("super" in code.co_names for code in _nested_codes(value.__code__)):
            return True
        else:
            waiting.extend(_closure_and_attributes(value))
    return False


def _is_users(value: Any) -> bool:
    return _is_users_module(str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")))


@lru_cache(maxsize=4096)
def _is_users_module(name: str) -> bool:
    top = name.partition(".")[0]
    return top == "__main__" or top not in _NOT_USERS


@lru_cache(maxsize=1024)
def _reads_expired(code: CodeType) -> bool:
    previous = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READ_OPERATIONS and instruction.argval in _EXPIRED_NAMES:
            is_of_self = previous is not None and previous.opname.startswith("LOAD_FAST") and previous.argval == "self"
            if not is_of_self:
                return True
        previous = instruction
    return any(_reads_expired(each) for each in code.co_consts if isinstance(each, CodeType))


def _values_named_in(function: FunctionType) -> list[Any]:
    """Returns the values of the names in a function: globals, members of modules, its closure and its defaults."""
    names, namespace = _names(function.__code__), function.__globals__
    values: list[Any] = [namespace[name] if name in namespace else sys.modules.get(name) for name in names]
    modules, seen = values, set[str]()
    while modules:
        inside = []
        for module in modules:
            if issubclass(type(module), ModuleType) and _is_users(module) and module.__name__ not in seen:
                seen.add(module.__name__)
                inside += [vars(module)[name] for name in names if name in vars(module)]
        values, modules = values + inside, inside
    return [
        *values,
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
        *_closure_and_attributes(function),
    ]


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset(name for each in _nested_codes(code) for name in each.co_names)


def _closure_and_attributes(function: FunctionType) -> Iterator[Any]:
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


# Objects that refer to themselves, as in ``self.rule = self.by_day``: a copy must refer to itself, not to the original.


Copy = TypeVar("Copy")


def rebind_to_copy(copied: Copy, original: object) -> Copy:
    """Returns a copy of a user's object, changed so that it refers to itself wherever the original refers to the
    original. All else is still shared by both.

    Raises ConfigError for a function that refers to the original, such as a lambda that uses ``self``: functions cannot
    be copied.
    """
    attributes: dict[str, Any] = {} if copied is original else getattr(copied, "__dict__", {})
    values_by_name = {name: value for name, value in attributes.items() if name != "settings"}
    values_by_id, holder_ids = _find_holders(original, copied, values_by_name.values())
    if not holder_ids:
        return copied
    memo = {key: value for key, value in values_by_id.items() if key not in holder_ids} | {id(original): copied}
    for name, value in values_by_name.items():
        if id(value) not in holder_ids:
            continue
        try:
            bound = deepcopy(value, memo)
        except USER_EXCEPTIONS:  # told where the whole object is copied
            continue
        if _find_holders(original, copied, [bound])[1]:
            owner = type(original).__name__
            raise ConfigError(
                f"{owner} holds in self.{name} a function that refers to the {owner} itself",
                why="it would go on using this one, and not the copy that each task has",
                do=f"write a method, and hold that: self.{name} = self.its_name; or make the function in prepare()",
            )
        attributes[name] = bound
    return copied


def _find_holders(wanted: object, copied: object, values: Iterable[Any]) -> tuple[dict[int, Any], set[int]]:
    """Returns all values that ``values`` refer to, directly or through other values, by id; and the ids of those among
    them that refer to ``wanted``. If ``wanted`` itself is found, its id is one of these. References of ``copied`` are
    not followed."""
    waiting, values_by_id, holders = list(values), dict[int, Any](), dict[int, list[int]]()
    while waiting and len(values_by_id) < _MOST_NEARBY:
        value = waiting.pop()
        if id(value) in values_by_id:
            continue
        values_by_id[id(value)] = value  # an object that is kept keeps its id to itself
        for part in () if value is wanted or value is copied else _references_of(value):
            holders.setdefault(id(part), []).append(id(value))
            waiting.append(part)
    holder_ids, ids = set[int](), [id(wanted)] if id(wanted) in values_by_id else []
    while ids:
        holder_ids.add(each := ids.pop())
        ids += [holder for holder in holders.pop(each, ()) if holder not in holder_ids]
    return values_by_id, holder_ids


def _references_of(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is FunctionType:
        return (*_closure_and_attributes(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    leads_on = issubclass(kind, (MethodType, *_WRAPPERS)) or _may_hold_user_code(kind)
    if not leads_on or issubclass(kind, type | ModuleType | CodeType):
        return ()
    return islice(filter(gc.is_tracked, gc.get_referents(value)), _MOST_NEARBY)  # numbers and texts hold nothing
