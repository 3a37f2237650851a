"""Checks of the arguments of public calls against their signatures: names, number and types."""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property
from inspect import Parameter
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from windowing.errors import ConfigError, WindboltError, combine_errors, did_you_mean
from windowing.reprs import repr_of

# Annotations: whether a value fits one, and their descriptions for errors.


_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
    datetime: "a time such as '2024-01-01T12:10:00Z'",
    timedelta: "a timedelta",
    os.PathLike: "a path",
    types.NoneType: "None",
    type: "a class",
    Callable: "a function",
    object: "",
    Any: "",
}
_SINKS = ("FileSink", "ConsoleSink", "MemorySink", "FunctionSink", "KafkaSink", "TableSink", "DiscardSink")
_NAMES_IN_WORDS = {
    **dict.fromkeys(_SINKS, "a sink such as sinks.files(path)"),
    "Duration": "a duration such as seconds(5)",
    "Count": "a Count of events",
    "Graph": "the topology that builder.build() returns",
    "Shift": "a shift in time",
    "Unset": "",
}
"""Descriptions of windbolt's types, which this module cannot import; "" for types that users do not know."""
_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}
_UNIONS = (Union, types.UnionType)
_PAIR = 2
_COLLECTIONS = (list, tuple, set, frozenset)


class Unknown:
    """Stands for a name that is imported for type checkers only; any value fits it."""

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, item: object) -> Unknown:
        return self

    def __or__(self, other: object) -> Unknown:
        return self

    __ror__ = __or__


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Unknown())


def resolve(annotation: Any, names: Mapping[str, Any]) -> Any:
    """Returns the type of an annotation, which may be a text; Any if it is empty or cannot be resolved."""
    while isinstance(annotation, str):
        try:
            annotation = eval(annotation, {}, _Names(names))
        except (TypeError, AttributeError, SyntaxError):
            return Any
    return Any if isinstance(annotation, Unknown) or annotation is Parameter.empty else annotation


def _has_unknown_name(kind: Any) -> bool:
    """True if a name in a resolved type is unknown, perhaps because it is not defined yet."""
    return kind is Any or isinstance(kind, Unknown) or any(map(_has_unknown_name, get_args(kind)))


def fits(value: object, annotation: Any, names: Mapping[str, Any]) -> bool:
    """True if a value fits an annotation, as far as this can be seen without consuming the value."""
    kind = resolve(annotation, names)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        return any(fits(value, each, names) for each in parts)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if origin is type:
        return isinstance(value, type)
    if isinstance(origin, type):
        return _fits_generic(value, origin, parts, names)
    return _fits_class(value, kind)


def _fits_class(value: object, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _fits_generic(value: object, origin: type, parts: tuple[Any, ...], names: Mapping[str, Any]) -> bool:
    is_text = isinstance(value, str | bytes) and origin is not os.PathLike  # a text is not meant as a list of letters
    is_iterable = origin is Sequence and isinstance(value, Iterable) and not isinstance(value, Mapping)  # or a set
    if is_text or not (is_iterable or isinstance(value, origin)):
        return False
    if isinstance(value, Mapping) and len(parts) == _PAIR:
        return all(fits(k, parts[0], names) and fits(v, parts[1], names) for k, v in value.items())
    if isinstance(value, _COLLECTIONS) and origin is not tuple and len(parts) == 1:
        return all(fits(each, parts[0], names) for each in value)
    return True


def describe(annotation: Any, names: Mapping[str, Any]) -> str:
    """Returns a description of the values of an annotation, ``a text or a list of texts``; "" if there is none."""
    descriptions = dict.fromkeys(_descriptions(resolve(annotation, names), names))
    descriptions.pop("", None)
    *other_words, last_words = descriptions or [""]
    return f"{', '.join(other_words)} or {last_words}" if other_words else last_words


def literal_values(annotation: Any, names: Mapping[str, Any]) -> list[object]:
    """Returns the values that an annotation lists in its Literals."""
    kind = resolve(annotation, names)
    if get_origin(kind) in _UNIONS:
        return [choice for each in get_args(kind) for choice in literal_values(each, names)]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return []


def _descriptions(annotation: Any, names: Mapping[str, Any]) -> list[str]:
    """Returns a description of each of the types that an annotation allows, None at the end."""
    kind = resolve(annotation, names)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        none_last = sorted(parts, key=lambda each: each is types.NoneType)
        return [words for each in none_last for words in _descriptions(each, names)]
    if origin is Literal:
        return [repr(each) for each in parts]
    if origin is not None:
        return [_collection_in_words(origin, parts, names)]
    return [_WORDS[kind]] if kind in _WORDS else [_class_in_words(kind)] if isinstance(kind, type) else []


def _class_in_words(kind: type) -> str:
    if kind.__name__ in _NAMES_IN_WORDS:
        return _NAMES_IN_WORDS[kind.__name__]
    if issubclass(kind, Enum):
        return f"a member of {kind.__name__}"
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _collection_in_words(origin: Any, parts: tuple[Any, ...], names: Mapping[str, Any]) -> str:
    if origin in _WORDS:
        return _WORDS[origin]
    if issubclass(origin, Mapping):
        return "a mapping"
    if issubclass(origin, Iterable):
        element_words = describe(parts[0], names) if parts else ""
        return f"a list of {_PLURAL[element_words]}" if element_words in _PLURAL else "a list"
    return _class_in_words(origin)


_PLURAL = {"a text": "texts", "a whole number": "whole numbers", "a number": "numbers"}


# Decorators that check arguments.
#
# A mistake is a ConfigError before the call runs, where Python would raise a TypeError from within the call, or accept
# the value. Type checkers see the decorated calls unchanged.


Call = TypeVar("Call", bound=Callable[..., Any])
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def checked(call: Call) -> Call:
    """Decorate a call with side effects: its arguments are checked before it runs."""

    def strict(signature: _Signature, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        signature.check_names(args, kwargs)
        mismatch = signature.type_error(args, kwargs)
        if mismatch is not None:
            raise mismatch
        return function(*args, **kwargs)

    return _decorate(call, _guard_with(strict))


def checked_value(call: Call) -> Call:
    """Decorate a call without side effects, or a class of values. If an argument has a wrong type, the call is tried
    first, because its own error is more precise."""

    def try_first(signature: _Signature, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        signature.check_names(args, kwargs)
        mismatch = signature.type_error(args, kwargs)
        if mismatch is None:
            return function(*args, **kwargs)
        try:
            function(*args, **kwargs)
        except WindboltError:
            raise
        except Exception:
            pass
        raise mismatch

    return _decorate(call, _guard_with(try_first))


def checked_on_failure(call: Call) -> Call:
    """Decorate a call that is made once per window or row: its arguments are checked only if it fails."""

    def guard(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = _Signature(function)

        @functools.wraps(function)
        def checked_call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except WindboltError:
                raise
            except Exception:
                signature.check_names(args, kwargs)
                mismatch = signature.type_error(args, kwargs)
                if mismatch is not None:
                    raise mismatch from None
                raise

        return checked_call

    return _decorate(call, guard)


def _guard_with(check: Callable[[_Signature, Callable[..., Any], Any, Any], Any]) -> Callable[..., Any]:
    """Returns a decorator that passes each call of a function to ``check``, which calls the function."""

    def guard(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = _Signature(function)

        @functools.wraps(function)
        def checked_call(*args: Any, **kwargs: Any) -> Any:
            return check(signature, function, args, kwargs)

        return checked_call

    return guard


def _decorate(call: Call, decorator: Callable[..., Any]) -> Call:
    """Returns the guarded function; a class is returned itself, with a guarded ``__init__``."""
    if not isinstance(call, type):
        checked_call: Call = decorator(call)
        return checked_call
    call.__init__ = decorator(vars(call)["__init__"])  # type: ignore[misc]
    return call


@dataclass(frozen=True)
class _Signature:
    """The signature of a call, read at its first use, because names in its annotations may be defined later."""

    function: Callable[..., Any]

    @cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        return inspect.signature(self.function).parameters

    @cached_property
    def _names(self) -> Mapping[str, Any]:
        return vars(sys.modules[self.function.__module__])

    @cached_property
    def _is_method(self) -> bool:
        return next(iter(self._parameters), "") == "self"

    @cached_property
    def _positional_parameters(self) -> list[Parameter]:
        """The parameters that can be given by position."""
        return [each for each in self._parameters.values() if each.kind in _POSITIONAL]

    @cached_property
    def _named_parameters(self) -> list[str]:
        """The parameters that can be given by name."""
        names = (parameter.name for parameter in self._parameters.values() if parameter.kind in _NAMED)
        return [name for name in names if name != "self"]

    @cached_property
    def _required_parameters(self) -> list[Parameter]:
        """The parameters without a default."""
        return [each for each in self._parameters.values() if _is_required(each)]

    @cached_property
    def _variadic_kinds(self) -> set[Any]:
        """The kinds of its variadic parameters, ``*arguments`` and ``**arguments``."""
        return {each.kind for each in self._parameters.values()} & {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The resolved types of parameters, by name."""
        return {}

    def _type_of(self, parameter: Parameter) -> Any:
        kind = self._types.get(parameter.name)
        if kind is None:
            kind = resolve(parameter.annotation, self._names)
            if not _has_unknown_name(kind):
                self._types[parameter.name] = kind
        return kind

    def check_names(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise ConfigError for arguments that are unknown, missing or given twice."""
        problems = [*self._name_errors(args, kwargs)]
        if problems:
            raise combine_errors(f"{self._name_of_call(args)}()", problems)

    def _name_errors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[ConfigError]:
        parameters, positional_names = self._parameters, [parameter.name for parameter in self._positional_parameters]
        call = self._name_of_call(args)
        if Parameter.VAR_KEYWORD not in self._variadic_kinds:
            yield from (self._unknown(call, name) for name in kwargs if name not in self._named_parameters)
        if Parameter.VAR_POSITIONAL not in self._variadic_kinds and len(args) > len(positional_names):
            accepted = positional_names[self._is_method :]
            keyword_only = ", ".join(
                f"{each}="
                for each, other_parameter in parameters.items()
                if other_parameter.kind is Parameter.KEYWORD_ONLY
            )
            yield ConfigError(
                f"{call}() with {len(args) - self._is_method} arguments without a name",
                why=f"it takes {len(accepted)}: {', '.join(accepted)}" if accepted else "it takes none",
                do=f"give {'the others' if accepted else 'them'} by name"
                + (f": {keyword_only}" if len(keyword_only) < 80 else "")
                if keyword_only
                else "leave the others out",
            )
        for name in positional_names[: len(args)]:
            if name in kwargs:
                by_position, by_keyword = repr_of(args[positional_names.index(name)]), repr_of(kwargs[name])
                yield ConfigError(
                    f"{call}() with {name} twice",
                    why=f"{by_position:.60} is {name} by position, and {name}={by_keyword:.60}",
                    do="leave one of them out",
                )
        given_names = {*positional_names[: len(args)], *kwargs}
        missing = [parameter for parameter in self._required_parameters if parameter.name not in given_names]
        yield from (self._missing(call, parameter) for parameter in missing)

    def type_error(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ConfigError | None:
        """Returns the error for arguments whose types differ from their annotations; None if all types fit.

        Call ``check_names`` first.
        """
        problems = [
            self._wrong_type(self._name_of_call(args), parameter, value, prefix)
            for parameter, value, prefix in self._given_arguments(args, kwargs)
            if value is not parameter.default and not fits(value, self._type_of(parameter), self._names)
        ]
        return combine_errors(f"{self._name_of_call(args)}()", problems) if problems else None

    def _given_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[Parameter, Any, str]]:
        """Returns the parameter, the value and the prefix (``name=``, or "") of each given argument."""
        parameters = self._parameters
        positional = self._positional_parameters
        arguments = [
            (parameter, value, f"{parameter.name}=") for parameter, value in zip(positional, args, strict=False)
        ]
        for parameter in parameters.values():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                arguments += [(parameter, value, "") for value in args[len(positional) :]]
            elif parameter.kind is Parameter.VAR_KEYWORD:
                arguments += [
                    (parameter, value, f"{name}=") for name, value in kwargs.items() if name not in parameters
                ]
            elif parameter.name in kwargs:
                arguments.append((parameter, kwargs[parameter.name], f"{parameter.name}="))
        return arguments[self._is_method :]

    def _wrong_type(self, call: str, parameter: Parameter, value: object, prefix: str) -> ConfigError:
        words = describe(parameter.annotation, self._names)
        name = prefix.removesuffix("=") or parameter.name
        unit = "; a bare number has no unit" if isinstance(value, Real) and "a duration" in words else ""
        choices = [each for each in literal_values(parameter.annotation, self._names) if isinstance(each, str)]
        return ConfigError(
            f"{call}({prefix}{repr_of(value):.60})",
            why=f"{name} is {words}{unit}{did_you_mean(value, choices)}" if words else f"that is no {name}",
            do=f"call the class: {value.__name__}(...)" if isinstance(value, type) else f"give {words or 'another'}",
        )

    def _unknown(self, call: str, name: str) -> ConfigError:
        names = self._named_parameters
        return ConfigError(
            f"{call}() has no argument {name!r}",
            why=f"its arguments are {', '.join(names)}{did_you_mean(name, names)}" if names else "it takes none",
            do="correct the name, or leave it out" if names else "leave it out",
        )

    def _missing(self, call: str, parameter: Parameter) -> ConfigError:
        words = describe(parameter.annotation, self._names)
        return ConfigError(
            f"{call}() without {parameter.name}",
            why=f"it is {words}, and has no default" if words else "it has no default",
            do=f"write {call}({parameter.name}=...)",
        )

    def _name_of_call(self, args: tuple[Any, ...]) -> str:
        """Returns the name by which users know the call."""
        name = self.function.__name__
        if name == "__init__":
            return type(args[0]).__name__ if args else self.function.__qualname__.split(".")[0]
        return name


def _is_required(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind in _NAMED
