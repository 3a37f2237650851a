"""The modules that a topology needs: those that its bolts, rules and functions are in, and all that these import."""

from __future__ import annotations

import ast
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pyspark import cloudpickle

from topologies.spark.code.module_owner import ModuleOwner, module_places, owner_of
from topologies.topology import Topology

_MADE = ("__pycache__", "node_modules")


@dataclass
class Reached:
    """What was found; the names are those of top-level modules and packages."""

    users: dict[str, str] = field(default_factory=dict)
    """By name, the file or folder of the user's own."""
    installed: set[str] = field(default_factory=set)
    """Packages that are installed here, and without which a module of the user's cannot be imported."""


def with_code(value: object) -> bytes:
    """A value as bytes, with the code of classes that cannot be imported: those of ``__main__``, and of functions."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def reached_by(topology: Topology) -> Reached:
    """What a topology needs, as far as that can be read off its modules: not what is imported by a computed name."""
    seen = _Seen(io.BytesIO())
    with suppress(Exception):  # what cannot be sent is told where it is sent
        seen.dump(topology)  # type: ignore[no-untyped-call]
    search = _Search()
    for name in sorted(seen.modules):
        search.follow(name, needed=True)
    for text in seen.sources:
        search.read(text, "", needed=True)
    for text in _main_source(seen.modules):
        search.read(text, "", needed=False)
    return search.found


class _Search:
    """Follows imports from module to module."""

    def __init__(self) -> None:
        self.found = Reached()
        self._read: set[str] = set()
        """The modules of the user's whose imports are needed."""

    def follow(self, name: str, *, needed: bool) -> None:
        """Note the top-level module of a name; ``needed``: the topology cannot be loaded without this module."""
        top = name.partition(".")[0]
        match owner_of(top) if top else ModuleOwner.NOBODY:
            case ModuleOwner.USER:
                self._take(top)
                if needed:
                    self._read_loaded(name)
            case ModuleOwner.INSTALLED if needed:
                self.found.installed.add(top)

    def read(self, text: str, package: str, *, needed: bool) -> None:
        """Follow the imports of a module's text. Those within functions, and those that are tried, may do without."""
        self._follow_all(_imports(text, package), needed=needed)

    def _follow_all(self, imports: Iterable[tuple[str, bool]], *, needed: bool) -> None:
        for name, at_once in imports:
            self.follow(name, needed=needed and at_once)

    def _take(self, top: str) -> None:
        """Note a module or package of the user's: it travels whole, so that what it imports late is there too."""
        if top in self.found.users:
            return
        place = Path(module_places(top)[0])
        if place.is_file() and place.stem != top:
            return  # the file of a rule goes by another name, and travels as text
        self.found.users[top] = str(place)
        for file in files_of(place):
            if file.suffix == ".py":
                self._read_file(file, "", needed=False)

    def _read_loaded(self, name: str) -> None:
        """Read a module, and the packages that it is in, as far as they are loaded: a name may be none of a module."""
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            module = sys.modules.get(".".join(parts[:count]))
            file = getattr(module, "__file__", None)
            if module is None or file is None or module.__name__ in self._read:
                continue
            self._read.add(module.__name__)
            self._read_file(Path(file), getattr(module, "__package__", "") or "", needed=True)

    def _read_file(self, file: Path, package: str, *, needed: bool) -> None:
        with suppress(OSError, UnicodeDecodeError):
            now = file.stat()
            self._follow_all(_imports_in(str(file), package, now.st_mtime_ns, now.st_size), needed=needed)


@lru_cache(maxsize=4096)
def _imports_in(path: str, package: str, changed: int, size: int) -> tuple[tuple[str, bool], ...]:
    """The imports of a file as it was changed last: of a package they are looked for at the start of each run."""
    return _imports(Path(path).read_text("utf-8"), package)


def _imports(text: str, package: str) -> tuple[tuple[str, bool], ...]:
    """The names that a module's text may import, and of each whether it is imported with the module; none where it is
    no Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    first = {id(node) for node in tree.body}
    return tuple((name, id(node) in first) for node in _statements(tree.body) for name in _imported(node, package))


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, those within others too, in some order: a tenth of what a tree has, and no import is anywhere
    else."""
    left = list(body)
    while left:  # each ``elif`` is within the one before: of a thousand, a function that calls itself is too deep
        statement = left.pop()
        yield statement
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left.extend(getattr(statement, part, ()))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """The names of the modules that a statement may import, by their full names; without its package, those that are
    relative are left out."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = module or ""
            if level:
                if not package:
                    return
                above = package.split(".")[: len(package.split(".")) - level + 1]
                base = ".".join([*above, *filter(None, [module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in names)


class _Seen(cloudpickle.Pickler):
    """Notes the modules of the classes and functions that are pickled; what it writes is of no use."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.modules: set[str] = set()
        self.sources: list[str] = []
        """Texts of rules, which travel with the topology without what they import."""

    def reducer_override(self, obj: Any) -> Any:
        """Called with every object that is not of a simple type."""
        if isinstance(obj, (type, FunctionType)):
            self.modules.add(obj.__module__ or "")
        elif isinstance(obj, ModuleType):
            self.modules.add(obj.__name__)
        elif isinstance(getattr(obj, "source", None), str) and isinstance(getattr(obj, "place", None), str):
            self.sources.append(obj.source)
        elif isinstance(getattr(obj, "place", None), str) and obj.place.replace(".", "a").isidentifier():
            self.modules.add(obj.place)  # a rule that is named by its module
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _main_source(modules: Iterable[str]) -> Iterator[str]:
    """The text of the program, whose classes travel by themselves, but not what it imports; of a notebook, imports of
    what its names are from."""
    if "__main__" not in modules:
        return
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None:
        with suppress(OSError, UnicodeDecodeError):
            yield Path(path).read_text("utf-8")
        return
    for value in list(vars(main).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.replace(".", "a").isidentifier():
            yield f"import {name}"


def files_of(place: Path) -> Iterator[Path]:
    """The files of a module or package, in order of their names, without those that others make: hidden ones, caches,
    environments."""
    if place.is_file():
        yield place
        return
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _MADE)
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))
