"""The rules of the aggregation step: Python functions for the key, the trigger, the time and the outgoing events."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from topologies.engine.failures import TooLong, call, in_call
from topologies.step.rule_values import (
    DECLINE,
    PASSTHROUGH,
    Aggregation,
    Event,
    Out,
    Outputs,
    RuleError,
    as_key,
    as_outputs,
    as_time,
    collect_events,
    copy_of_yielded,
)
from windowing.errors import ConfigError, WindboltError
from windowing.settings.triggers import FireResult, TriggerCall

__all__ = [
    "DECLINE",
    "PASSTHROUGH",
    "Aggregation",
    "Event",
    "FireResult",
    "NamedRule",
    "Out",
    "Outputs",
    "Rule",
    "RuleError",
    "TriggerCall",
    "as_key",
    "as_outputs",
    "as_time",
    "load_rule",
    "look_at_rule",
]


# The class path of a step: its folder, and Python's module folders. All files that it names are below these.


def file_below(roots: Iterable[str | os.PathLike[str]], path: str, what: str) -> tuple[str | None, list[str]]:
    """Returns the file of a path below one of ``roots`` or of ``sys.path``, None if there is none; and the files that
    were tried.

    A leading / means the top of the class path. Raises ConfigError for a path or link that leads out of it; ``what``:
    describes the path in errors.
    """
    inside = path.lstrip("/")
    if os.pardir in inside.replace("\\", "/").split("/") or os.path.isabs(inside) or os.path.splitdrive(inside)[0]:
        raise ConfigError(
            f"{what} leads out of the classpath",
            why="classpath files are below its folders",
            do="write the path without '..'",
        )
    tried: list[str] = []
    for root in dict.fromkeys(os.path.abspath(folder) for folder in [*roots, *sys.path]):
        file = os.path.join(root, inside)
        if os.path.isfile(file):
            if os.path.commonpath([os.path.realpath(root), os.path.realpath(file)]) != os.path.realpath(root):
                raise ConfigError(
                    f"{what} is a link that leads out of the classpath",
                    why=f"{file} is {os.path.realpath(file)}",
                    do="put the file itself there",
                )
            return file, tried
        tried.append(file)
    return None, tried


# The functions that rules must be, and errors for other ones.


class _Form(NamedTuple):
    """The expected form of a rule's function: its default name and its parameters."""

    name: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return self.named(self.name)

    def named(self, name: str) -> str:
        """Returns the first line of such a function with this name."""
        return f"def {name}({', '.join(self.parameters)})"


FORMS: dict[str, _Form] = {
    "key": _Form("key", ("event",)),
    "trigger": _Form("trigger", ("event", "call")),
    "time": _Form("time", ("event",)),
    "dsl": _Form("aggregate", ("events", "call")),
}


def unclear_error(kind: Kind, place: str, name: str, public_names: Sequence[str]) -> ConfigError:
    """Returns the error for a file without the named function, or without an unnamed function that is clearly meant."""
    return ConfigError(
        f"{place} has no function {name!r}",
        why=f"its functions are {', '.join(public_names)}" if public_names else "it has no public functions",
        do=f"write {FORMS[kind]}, or name another one: {os.path.basename(place)}:name",
    )


def unfit_error(kind: Kind, place: str, name: str, line: int | None, why: str) -> ConfigError:
    """Returns the error for a function that cannot be a rule of this kind."""
    where = f"{place}, line {line}" if line else place
    return ConfigError(f"{where}: {name!r} cannot be the {kind} rule", why=why, do=f"write {FORMS[kind].named(name)}")


# Makes modules of rule files, compiled from their text, wherever it came from.


_LOADED: dict[tuple[str, str], ModuleType] = {}
_LOADING = threading.RLock()


def module_of(file: str, source: str) -> ModuleType:
    """Returns the module of a rule file, which is run once per process; the file itself need not exist.

    Tracebacks show its lines nevertheless. Its folder, if it exists, is appended to ``sys.path``: a rule file may
    import its neighbours, but none of them hides an installed module. Raises ConfigError for a file that cannot be
    compiled or run.
    """
    loaded = _LOADED.get((file, source))
    if loaded is not None:
        return loaded
    with _LOADING:
        if (file, source) not in _LOADED:
            _LOADED[file, source] = _run_file(file, source)
        return _LOADED[file, source]


def line_in(error: BaseException, file: str) -> int | None:
    """Returns the line of a file where an exception was raised: the innermost in its traceback."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    return line


def error_on_one_line(error: BaseException) -> str:
    """Returns an exception on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text fails as well"
    name = type(error).__name__
    return f"{name}: {text:.300}" if text else name


def _run_file(file: str, source: str) -> ModuleType:
    stem = os.path.splitext(os.path.basename(file))[0]
    digest = hashlib.sha256("\0".join((file, source)).encode(errors="replace")).hexdigest()
    name = f"windbolt_rule_{stem}_{digest[:12]}"
    module = ModuleType(name)
    module.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    folder = os.path.dirname(file)
    if folder not in sys.path and os.path.isdir(folder):
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise loading_error(file, error) from error
    return module


def loading_error(file: str, error: BaseException) -> ConfigError:
    """Returns the error for a rule file that cannot be compiled or run."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return ConfigError(
            f"{file}, line {error.lineno}: this is not valid Python",
            why=f"{type(error).__name__}: {error.msg}",
            do="fix it",
        )
    do = "fix it, then try again"
    if isinstance(error, ModuleNotFoundError):
        do = "install it, or put it beside the rules, where Spark's workers run too (--py-files)"
    return ConfigError(
        f"{file}, line {line_in(error, file)}: the rules cannot be loaded", why=error_on_one_line(error), do=do
    )


# A rule of the aggregation step: a function that every process can find, called with a time limit.


Kind = Literal["key", "trigger", "time", "dsl"]
LIMIT_SECONDS = 5.0

Converted = TypeVar("Converted")


@dataclass(frozen=True)
class Rule:
    """A function of a file or a module, created by ``load_rule``.

    It can be sent to other processes, with the text of its file, so that the file need not exist there. Its imports
    must exist: neighbours of the file are found in its folder, on the machine where the rule was loaded. For the
    workers of a cluster, pass them to Spark (``--py-files``) or install them.
    """

    kind: Kind
    place: str
    """The path of the file, or the name of the module."""
    name: str
    """The name of the function."""
    source: str | None = None
    """The text of the file; None for a module."""
    limit_seconds: float = LIMIT_SECONDS
    """Longest duration of a call. A call into C, such as ``time.sleep``, is interrupted only when it returns."""

    def __post_init__(self) -> None:
        limit = self.limit_seconds
        if not isinstance(limit, (int, float)) or isinstance(limit, bool) or not 0 < limit < float("inf"):
            raise ConfigError(
                f"limit_seconds={limit!r}", why="a call needs a limit above zero", do="give seconds, such as 5"
            )
        object.__setattr__(self, "_function", None)

    def __reduce__(self) -> tuple[type[Rule], tuple[Any, ...]]:
        return Rule, (self.kind, self.place, self.name, self.source, self.limit_seconds)

    def __str__(self) -> str:
        return f"{self.kind} rule {self.place}:{self.name}"

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function and returns its result; collects the generator of an aggregation rule.

        Raises RuleError for every exception except KeyboardInterrupt, and if the call takes too long. Raises
        ConfigError if this process cannot find the function.
        """
        function = self._function or self._import_function()  # type: ignore[attr-defined]
        try:
            return call(function, arguments, self.limit_seconds)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or (isinstance(error, TooLong) and in_call()):
                raise
            raise self._failure(error) from error

    def converted(self, convert: Callable[..., Converted], *arguments: Any) -> Converted:
        """Converts a result of the rule. Raises RuleError for any exception, because an object may run code of its
        own."""
        try:
            return convert(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.blame(error) from error

    @property
    def file(self) -> str:
        """The file of the function."""
        return self.place if self.source is not None else str(getattr(self._module(), "__file__", self.place))

    def blame(self, error: BaseException) -> RuleError:
        """Returns the error for an invalid result of the rule, with its file and first line."""
        place = self._place(None)
        reason = str(error) if isinstance(error, WindboltError) else self._reason(error)
        return RuleError(f"{place}: {reason}", brief=f"{place}: {type(error).__name__}")

    def _place(self, line: int | None) -> str:
        if line is None:
            code = getattr(getattr(self._module(), self.name, None), "__code__", None)
            line = code.co_firstlineno if code is not None and code.co_filename == self.file else None
        return f"{self}, line {line}" if line else str(self)

    def _module(self) -> Any:
        if self.source is not None:
            return module_of(self.place, self.source)
        try:
            return importlib.import_module(self.place)
        except Exception as error:
            raise ConfigError(
                f"{self} cannot be imported",
                why=error_on_one_line(error),
                do="install its module wherever the rule is called",
            ) from error

    def _import_function(self) -> Callable[..., Any]:
        function: Callable[..., Any] | None = getattr(self._module(), self.name, None)
        if function is None:
            raise ConfigError(f"{self}: there is no {self.name!r}", do="install the same version on every machine")
        if self.kind == "dsl":
            function = _collecting_generators(function)
        object.__setattr__(self, "_function", function)
        return function

    def _failure(self, error: BaseException) -> RuleError:
        line, cause = line_in(error, self.file), error
        while line is None and isinstance(cause, TooLong) and cause.__context__ is not None:
            # It was raised again on its way here.
            cause = cause.__context__
            line = line_in(cause, self.file)
        place = self._place(line)
        if isinstance(error, TooLong):
            long = f"{place}: it took more than {self.limit_seconds:g} s"
            return RuleError(long, do="fix its loop, or raise the limit", brief=long)
        return RuleError(f"{place}: {self._reason(error)}", brief=f"{place}: {type(error).__name__}")

    def _reason(self, error: BaseException) -> str:
        try:
            return str(call(error_on_one_line, (error,), self.limit_seconds))
        except KeyboardInterrupt:
            raise
        except BaseException:
            return type(error).__name__


def _collecting_generators(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of an aggregation rule with its generators collected, under the rule's time limit."""

    def collecting(events: Any, call: Any) -> Any:
        returned = function(events, call)
        if isinstance(returned, Iterator):
            returned = collect_events(returned)
        if isinstance(call.out, Iterator):
            call.out = [copy_of_yielded(each) for each in call.out]
        return returned

    return collecting


# A rule as a configuration names it, and its place.


Path = str | os.PathLike[str]


@dataclass(frozen=True)
class NamedRule:
    """A rule as a configuration names it; it need not exist.

    The suffix .tr, of rules of the original, means .py. ``file.py:name`` names the function. Without a name it is the
    function with the default name of the kind (key, trigger, time, aggregate), or the only public function that the
    file defines.
    """

    kind: Kind
    source: str
    """``file`` or ``classpath``."""
    path: str
    """Path of the rule. For a ``file``: relative to the first of ``roots``, the folder of the configuration. For the
    ``classpath``: ``package.module:function``, or a file below one of ``roots`` or of ``sys.path``, with or without a
    leading ``/``; paths above them are refused."""
    roots: Sequence[Path] = ()
    allow_files: bool = True
    """False for configurations from elsewhere, which may use only the classpath: files below ``roots`` and installed
    modules. A file that is a link out of these is always refused."""
    limit_seconds: float = LIMIT_SECONDS
    """Longest duration of a call."""


def find_rule(named: NamedRule) -> tuple[str, str | None, bool]:
    """Returns the file or module of a rule, the named function, and True for a file. Runs no code of the rule."""
    kind, source, path, roots = named.kind, named.source, named.path, named.roots
    if kind not in get_args(Kind):
        raise ConfigError(f"{kind!r} is not a kind of rule", do=f"use one of {get_args(Kind)}")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ConfigError(f"path={path!r} of the {kind} rule is empty", do="give the path of a file of rules")
    place, name = _split(path)
    match source:
        case "file":
            if not named.allow_files:
                raise ConfigError(
                    f"the {kind} rule {path!r} is a file",
                    why='rules of source "file" are not allowed here, because they may run code from any folder',
                    do='put it below the folder of the rules and use source "classpath"',
                )
            return _file_in_folder(kind, place, roots), name, True
        case "classpath" if "/" in place or place.endswith((".py", ".tr")):
            return _file_on_classpath(kind, place, roots), name, True
        case "classpath":
            return place, name, False
    raise ConfigError(f"source={source!r} of the {kind} rule {path!r}", do='use "file" or "classpath"')


def _split(path: str) -> tuple[str, str | None]:
    place, _, name = path.rpartition(":")
    return (place, name) if place and name.isidentifier() else (path, None)


def _file_in_folder(kind: Kind, place: str, roots: Sequence[Path]) -> str:
    folder = os.fspath(roots[0]) if roots else os.curdir
    file = os.path.abspath(os.path.join(folder, _as_python_file(place)))
    if not os.path.isfile(file):
        raise _missing_error(kind, place, [file])
    return file


def _file_on_classpath(kind: Kind, place: str, roots: Sequence[Path]) -> str:
    """Returns the file of a path on the classpath, below one of its folders."""
    file, tried = file_below(roots, _as_python_file(place), f"the {kind} rule {place!r}")
    if file is None:
        raise _missing_error(kind, place, tried)
    return file


def _as_python_file(place: str) -> str:
    return f"{place.removesuffix('.tr')}.py" if place.endswith(".tr") else place


def _missing_error(kind: Kind, place: str, tried: Sequence[str]) -> ConfigError:
    original = [file for file in (f"{path.removesuffix('.py')}.tr" for path in tried) if os.path.isfile(file)]
    if original:
        return ConfigError(
            f"the {kind} rule {original[0]} is in the original's language of rules",
            why="windbolt's rules are Python functions",
            do=f"write {FORMS[kind]} into {os.path.basename(_as_python_file(original[0]))} beside it",
        )
    more = f" and in {len(tried) - 3} more folders" if len(tried) > 3 else ""
    return ConfigError(
        f"there is no {kind} rule {place!r}",
        why=f"looked for {', '.join(tried[:3]) or 'nothing'}{more}",
        do=f"correct the path, or write {FORMS[kind]} there",
    )


# Checks from a rule's text whether it can be the rule of a configuration, without running its code.


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def look_at_rule(named: NamedRule) -> Rule:
    """Returns the rule that ``load_rule`` would load, without running its file or module.

    Checks the file, its syntax, the function and its parameters. Only loading shows missing imports, and names that are
    bound at run time. Raises ConfigError if a check fails.
    """
    kind, (place, name, in_file) = named.kind, find_rule(named)
    file = place if in_file else _file_of_module(kind, place)
    if file is not None:
        name = _checked_name(kind, place, name, _names_bound_in(file))
    return Rule(kind, place, name or FORMS[kind].name, text_of(place) if in_file else None, named.limit_seconds)


@dataclass
class _BoundNames:
    """The names bound at the top level of a file."""

    functions: dict[str, _Function] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    """Imported or assigned names, which may be functions or not."""

    def add(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.functions[name] = statement
                case ast.ClassDef(name=name):
                    self.classes.add(name)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    self.others.update(alias.asname or alias.name for alias in names)
                case _:
                    self.others.update(
                        node.id
                        for node in ast.walk(statement)
                        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                    )
                    for block in _blocks(statement):
                        self.add(block)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yields the statements within an if, try, with or loop at the top level."""
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(part, name, None)
            if isinstance(block, list):
                yield block


def _names_bound_in(file: str) -> _BoundNames:
    text, names = text_of(file), _BoundNames()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise loading_error(file, error) from error
    names.add(tree.body)
    return names


def _checked_name(kind: Kind, place: str, name: str | None, names: _BoundNames) -> str:
    """Returns the name of a rule's function. Raises ConfigError if the text shows that it is missing or unfit."""
    public_names = [candidate for candidate in names.functions if not candidate.startswith("_")]
    bound = {*names.functions, *names.classes, *names.others}
    if name is None:
        name = FORMS[kind].name
        if name not in bound and len(public_names) == 1:
            (name,) = public_names
    function = names.functions.get(name)
    if name in names.others or (name not in bound and "*" in names.others):
        return name
    if function is None and name not in names.classes:
        raise unclear_error(kind, place, name, public_names)
    why = "it is not a function of Python" if function is None else _misfit(kind, function)
    if why:
        raise unfit_error(kind, place, name, getattr(function, "lineno", None), why)
    return name


def _misfit(kind: Kind, function: _Function) -> str | None:
    if function.decorator_list:
        return None  # their effect is unknown
    if isinstance(function, ast.AsyncFunctionDef):
        return "it is async"
    if kind != "dsl" and any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function)):
        return "it yields, and is to return"
    parameters, wanted = function.args, len(FORMS[kind].parameters)
    positional = len(parameters.posonlyargs) + len(parameters.args)
    fits = positional - len(parameters.defaults) <= wanted and (positional >= wanted or parameters.vararg is not None)
    return None if fits and None not in parameters.kw_defaults else f"it has the parameters ({ast.unparse(parameters)})"


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """Yields the nodes of a function, without the nodes of nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _file_of_module(kind: Kind, module: str) -> str | None:
    """Returns the Python file of a module; None if it has none. Enclosing packages are located, not imported."""
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = None if count > 1 and folders is None else _find_spec(".".join(parts[:count]), folders)
        if spec is None:
            raise ConfigError(
                f"the {kind} rule {module!r} cannot be imported",
                why=f"there is no module {'.'.join(parts[:count])!r}",
                do="write it like package.module:function, or folder/file.py, and install what it needs",
            )
        locations = spec.submodule_search_locations
        folders = None if locations is None else list(locations)
    return spec.origin if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _find_spec(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders)
        if spec is not None:
            return spec
    return None


# Loads a configuration's rules: runs their files or modules, and checks their functions.


def load_rule(named: NamedRule) -> Rule:
    """Returns the rule that a configuration names.

    The file or module is run here, without a time limit. Raises ConfigError for a rule that cannot be found, loaded or
    called.
    """
    place, name, in_file = find_rule(named)
    load = _rule_of_file if in_file else _rule_of_module
    return load(named.kind, place, name, named.limit_seconds)


def _rule_of_file(kind: Kind, file: str, name: str | None, limit: float) -> Rule:
    source = text_of(file)
    return Rule(kind, file, _function(kind, file, module_of(file, source), name), source, limit)


def text_of(file: str) -> str:
    """Returns the text of a rule file. Raises ConfigError if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return importlib.util.decode_source(opened.read())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read", why=error_on_one_line(error), do="save it as UTF-8, readable for this user"
        ) from error


def _rule_of_module(kind: Kind, place: str, name: str | None, limit: float) -> Rule:
    try:
        module = importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(
            f"the {kind} rule {place!r} cannot be imported",
            why=error_on_one_line(error),
            do="write it like package.module:function, or folder/file.py, and install what it needs",
        ) from error
    return Rule(kind, place, _function(kind, place, module, name), None, limit)


def _function(kind: Kind, place: str, module: ModuleType, name: str | None) -> str:
    """Returns the name of the function to call."""
    public_names = dict(_own_functions(module))
    if name is None:
        name = FORMS[kind].name
        if not callable(getattr(module, name, None)):
            if len(public_names) != 1:
                raise unclear_error(kind, place, name, list(public_names))
            (name,) = public_names
    function = getattr(module, name, None)
    if function is None:
        raise unclear_error(kind, place, name, list(public_names))
    _check_function(kind, place, name, function)
    return name


def _own_functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the public functions defined in a module, without imported functions."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == module.__name__:
            yield name, value


def _check_function(kind: Kind, place: str, name: str, function: Callable[..., Any]) -> None:
    form = FORMS[kind]
    why = ""
    if not callable(function) or inspect.isclass(function) or inspect.isbuiltin(function):
        why = "it is not a function of Python"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        why = "it is async"
    elif kind != "dsl" and inspect.isgeneratorfunction(function):
        why = "it yields, and is to return"
    else:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*form.parameters)
        except TypeError:
            why = f"it has the parameters {signature}"
    if why:
        line = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_firstlineno", None)
        raise unfit_error(kind, place, name, line, why)
