"""Checks by its text whether a rule can be what a configuration names; nothing of it is run."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec

from topologies.step.rules.compiled_rules import broken
from topologies.step.rules.forms import FORMS, unclear_error, unfit_error
from topologies.step.rules.named_rule import NamedRule, find_rule
from topologies.step.rules.rule import Kind, Rule
from topologies.step.rules.rule_modules import text_of
from windowing.errors import ConfigError

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def look_at_rule(named: NamedRule) -> Rule:
    """The rule that ``load_rule`` would load, without running its file or module.

    It checks the file, its syntax, the function and its parameters. Whether imports exist, and what is bound to names
    at run time, only loading can tell. Raises ConfigError where loading would fail for what it checks.
    """
    kind, (place, name, in_file) = named.kind, find_rule(named)
    file = place if in_file else _file_of(kind, place)
    if file is not None:
        name = _checked(kind, place, name, _names(file))
    return Rule(kind, place, name or FORMS[kind].name, text_of(place) if in_file else None, named.limit_seconds)


@dataclass
class _Names:
    """The names bound at the top level of a file."""

    functions: dict[str, _Function] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    """Imported or assigned names: whether they are functions is unknown."""

    def take(self, statements: Sequence[ast.stmt]) -> None:
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
                        self.take(block)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statements within an if, try, with or loop at the top level."""
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(part, name, None)
            if isinstance(block, list):
                yield block


def _names(file: str) -> _Names:
    text, names = text_of(file), _Names()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise broken(file, error) from error
    names.take(tree.body)
    return names


def _checked(kind: Kind, place: str, name: str | None, names: _Names) -> str:
    """The name of the function of a rule. Raises ConfigError where the text shows that it is missing or unfit_error."""
    own = [candidate for candidate in names.functions if not candidate.startswith("_")]
    bound = {*names.functions, *names.classes, *names.others}
    if name is None:
        name = FORMS[kind].name
        if name not in bound and len(own) == 1:
            (name,) = own
    function = names.functions.get(name)
    if name in names.others or (name not in bound and "*" in names.others):
        return name
    if function is None and name not in names.classes:
        raise unclear_error(kind, place, name, own)
    why = "it is not a function of Python" if function is None else _misfit(kind, function)
    if why:
        raise unfit_error(kind, place, name, getattr(function, "lineno", None), why)
    return name


def _misfit(kind: Kind, function: _Function) -> str | None:
    if function.decorator_list:
        return None  # their effect is unknown
    if isinstance(function, ast.AsyncFunctionDef):
        return "it is async"
    if kind != "dsl" and any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(function)):
        return "it yields, and is to return"
    given, wanted = function.args, len(FORMS[kind].parameters)
    places = len(given.posonlyargs) + len(given.args)
    fits = places - len(given.defaults) <= wanted and (places >= wanted or given.vararg is not None)
    return None if fits and None not in given.kw_defaults else f"it has the parameters ({ast.unparse(given)})"


def _own(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _file_of(kind: Kind, module: str) -> str | None:
    """The Python file of a module; None where it has none. Enclosing packages are found, but not imported."""
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = None if count > 1 and folders is None else _spec(".".join(parts[:count]), folders)
        if spec is None:
            raise ConfigError(
                f"the {kind} rule {module!r} cannot be imported",
                why=f"there is no module {'.'.join(parts[:count])!r}",
                do="write it like package.module:function, or folder/file.py, and install what it needs",
            )
        locations = spec.submodule_search_locations
        folders = None if locations is None else list(locations)
    return spec.origin if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _spec(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders)
        if spec is not None:
            return spec
    return None
