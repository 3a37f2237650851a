"""Finds the places where a small defect can be planted, and plants all of them behind a switch.

A planted expression reads ``b if mutation_switch.on(7) else a``: one copy of the source holds every defect, and which
of them is active is decided while the tests run.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("policies", "manager", "topologies/engine")
"""The source in which defects are planted."""
SWITCH = "mutation_switch"
"""The module that the planted source asks which defect is active."""

_BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_CONNECTIVES = {ast.And: ast.Or, ast.Or: ast.And}
_EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """A defect: where it is, and what is written there instead."""

    number: int
    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.number:4} {self.path}:{self.line}: {self.before}  ->  {self.after}"


def plant(root: Path, seed: int, count: int, under: Sequence[str] = FOLDERS) -> list[Mutant]:
    """Plants ``count`` defects, drawn with ``seed``, in these folders and files below ``root``, which are rewritten."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in _files(root, under)}
    sites = [(path, node) for path, tree in trees.items() for node in _sites(tree)]
    chosen = sorted(random.Random(seed).sample(range(len(sites)), min(count, len(sites))))
    mutants, numbers = [], {}
    for number, at in enumerate(chosen):
        path, node = sites[at]
        before, after = ast.unparse(node), ast.unparse(_mutated(node))
        mutants.append(Mutant(number, path.relative_to(root).as_posix(), node.lineno, before, after))
        numbers[id(node)] = number
    for path in sorted({sites[at][0] for at in chosen}):
        tree = trees[path]
        _Planting(numbers).generic_visit(tree)
        _import_switch(tree)
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n", "utf-8")
    return mutants


def _files(root: Path, under: Sequence[str]) -> list[Path]:
    """Returns each file once, in the order of ``under``."""
    found = [sorted(path.rglob("*.py")) if path.is_dir() else [path] for path in (root / each for each in under)]
    return list(dict.fromkeys(path for paths in found for path in paths))


def _sites(tree: ast.Module) -> Iterator[ast.expr | ast.AugAssign]:
    """Expressions and assignments within functions that have a mutated form, in the order of the source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                yield from _within(statement)


def _within(node: ast.AST) -> Iterator[ast.expr | ast.AugAssign]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.JoinedStr):
        return  # functions are walked themselves; texts are held by tests of texts
    if isinstance(node, ast.expr | ast.AugAssign) and _mutated(node) is not node:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _within(child)


def _mutated(node: ast.expr | ast.AugAssign) -> ast.expr | ast.AugAssign:
    """Returns the node with the defect, or the node itself where there is none to plant."""
    changed = copy.copy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in _BOUNDS:
            changed.ops = [_BOUNDS[type(operator)]()]
        case ast.Compare(ops=[one, other]) if type(one) in _BOUNDS and type(other) in _BOUNDS:
            changed.ops = [_BOUNDS[type(one)](), other]
        case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _SIGNS and not _text(left, right):
            changed.op = _SIGNS[type(operator)]()
        case ast.AugAssign(op=operator) if type(operator) in _SIGNS:
            changed.op = _SIGNS[type(operator)]()
        case ast.BoolOp(op=connective):
            changed.op = _CONNECTIVES[type(connective)]()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Call(func=ast.Name(id=name)) if name in _EXTREMES:
            changed.func = ast.Name(_EXTREMES[name], ast.Load())
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _EXTREMES:
            changed.func = ast.Attribute(value, _EXTREMES[name], ast.Load())
        case _:
            return node
    return changed


def _text(*operands: ast.expr) -> bool:
    """True for a text or a list: with a minus in its place the defect is found by whatever runs the line."""
    literal = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp
    return any(isinstance(each, literal) or _is_string(each) for each in operands)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Planting(ast.NodeTransformer):
    """Puts each chosen node and its mutated form behind the switch."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers

    def visit(self, node: ast.AST) -> ast.AST:
        number = self.numbers.get(id(node))
        visited = self.generic_visit(node)
        if number is None:
            return visited
        asked = ast.Call(ast.Attribute(ast.Name(SWITCH, ast.Load()), "on", ast.Load()), [ast.Constant(number)], [])
        if isinstance(visited, ast.AugAssign):
            return ast.If(asked, [_mutated(visited)], [visited])  # type: ignore[list-item]  # both are statements
        assert isinstance(visited, ast.expr)
        return ast.IfExp(asked, _mutated(visited), visited)  # type: ignore[arg-type]  # both are expressions


def _import_switch(tree: ast.Module) -> None:
    """Adds the import after the docstring and the imports from ``__future__``."""
    heads = (isinstance(each, ast.Expr) or getattr(each, "module", "") == "__future__" for each in tree.body)
    tree.body.insert(list(heads).index(False), ast.Import([ast.alias(SWITCH)]))
