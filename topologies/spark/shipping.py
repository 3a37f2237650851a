"""The code of a run for executors: the modules that a topology needs, their owners, and sending them."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import os
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from topologies.graph.graph import Graph
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext

# The owner of a module: Python, windbolt, an installed package, or the user.


WINDBOLT = ("windbolt", "windowing", "policies", "manager", "topologies")
"""The packages of windbolt."""
_SPARK = ("pyspark", "py4j")
_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


class ModuleOwner(Enum):
    """Owner of a module."""

    PYTHON = "python"
    WINDBOLT = "windbolt"
    INSTALLED = "installed"
    USER = "user"
    NO_OBSERVERS = "nobody"
    """There is no module of this name."""


def owner_of(name: str) -> ModuleOwner:
    """Returns the owner of the module with this name, which its top-level package decides."""
    top = name.partition(".")[0]
    if top in WINDBOLT:
        return ModuleOwner.WINDBOLT
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return ModuleOwner.PYTHON
    if top in _SPARK:
        return ModuleOwner.INSTALLED
    places = module_places(top)
    if not places:
        return ModuleOwner.NO_OBSERVERS
    return ModuleOwner.USER if all(is_users_path(place) for place in places) else ModuleOwner.INSTALLED


def is_users(module: ModuleType) -> bool:
    """True if a module is a user's file, which a worker may be unable to import."""
    path = getattr(module, "__file__", None)
    return (
        path is not None and module.__name__ != "__main__" and owner_of_file(module.__name__, path) is ModuleOwner.USER
    )


def owner_of_file(name: str, path: str) -> ModuleOwner:
    """Returns the owner of a module that was loaded from a file."""
    top = name.partition(".")[0]
    if top in WINDBOLT:
        return ModuleOwner.WINDBOLT
    return ModuleOwner.USER if top not in _SPARK and is_users_path(path) else ModuleOwner.INSTALLED


def is_users_path(path: str) -> bool:
    """True if a file or folder of modules is neither part of Python nor installed."""
    return not any(each in path for each in _INSTALLED) and not path.startswith(_STANDARD)


def module_places(top: str) -> list[str]:
    """Returns the file of a top-level module, or the folders of a package; empty if there is no such module."""
    module = sys.modules.get(top)
    if module is not None:
        found = [getattr(module, "__file__", None) or ""]
        if hasattr(module, "__path__"):
            found = list(module.__path__)
        return [os.path.abspath(place) for place in found if place]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    folders = list(spec.submodule_search_locations or ())
    return [os.path.abspath(place) for place in folders or filter(None, [spec.origin])]


def own_paths() -> list[str]:
    """Returns the entries of ``sys.path`` for the user's own modules, in order."""
    paths: Iterator[str] = (path or os.getcwd() for path in sys.path)
    return [path for path in paths if is_users_path(path)]


# The modules that a topology needs: those of its bolts, rules and functions, and all that these import.


_GENERATED = ("__pycache__", "node_modules")


@dataclass
class NeededModules:
    """Modules that were found, by the names of top-level modules and packages."""

    users: dict[str, str] = field(default_factory=dict)
    """By name, the user's file or folder."""
    installed: set[str] = field(default_factory=set)
    """Installed packages without which a module of the user cannot be imported."""


def with_code(value: object) -> bytes:
    """Returns a value as bytes, with the code of classes that cannot be imported: those of ``__main__``, and those
    defined in functions."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def modules_needed_by(topology: Graph) -> NeededModules:
    """Returns the modules that a topology needs, found by reading code; imports by a computed name are not found."""
    recorder = _ModuleRecorder(io.BytesIO())
    with suppress(Exception):  # sending it will report the problem
        recorder.dump(topology)  # type: ignore[no-untyped-call]
    search = _Search()
    for name in sorted(recorder.modules):
        search.follow(name, needed=True)
    for text in recorder.sources:
        search.read(text, "", needed=True)
    for text in _main_source(recorder.modules):
        search.read(text, "", needed=False)
    return search.found


class _Search:
    """Follows imports from module to module."""

    def __init__(self) -> None:
        self.found = NeededModules()
        self._read: set[str] = set()
        """The user's modules whose imports are required."""

    def follow(self, name: str, *, needed: bool) -> None:
        """Records the top-level module of a name; ``needed``: True if the topology cannot be loaded without it."""
        top = name.partition(".")[0]
        match owner_of(top) if top else ModuleOwner.NO_OBSERVERS:
            case ModuleOwner.USER:
                self._add_module(top)
                if needed:
                    self._read_loaded(name)
            case ModuleOwner.INSTALLED if needed:
                self.found.installed.add(top)

    def read(self, text: str, package: str, *, needed: bool) -> None:
        """Follows the imports in a module's text. Imports in functions and in ``try`` may be missing."""
        self._follow_all(_imports(text, package), needed=needed)

    def _follow_all(self, imports: Iterable[tuple[str, bool]], *, needed: bool) -> None:
        for name, at_once in imports:
            self.follow(name, needed=needed and at_once)

    def _add_module(self, top: str) -> None:
        """Records a user's module or package, which is sent as a whole, with the modules that it imports late."""
        if top in self.found.users:
            return
        place = Path(module_places(top)[0])
        if place.is_file() and place.stem != top:
            return  # a rule's file has another name, and is sent as text
        self.found.users[top] = str(place)
        for file in code_files(place):
            if file.suffix == ".py":
                self._read_file(file, "", needed=False)

    def _read_loaded(self, name: str) -> None:
        """Reads a loaded module, and the loaded packages around it; the name may not be that of a module."""
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
    """Returns the imports of a file in its present version; packages are searched at the start of each run."""
    return _imports(Path(path).read_text("utf-8"), package)


def _imports(text: str, package: str) -> tuple[tuple[str, bool], ...]:
    """Returns the names that a module's text may import, each with True if it is imported at once; empty if the text is
    not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    first = {id(node) for node in tree.body}
    return tuple((name, id(node) in first) for node in _statements(tree.body) for name in _imported(node, package))


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yields all statements, even nested ones, in some order. They are a tenth of the nodes of a tree, and every import
    is a statement."""
    left = list(body)
    while left:  # ``elif`` nests; with a thousand of them, recursion would be too deep
        statement = left.pop()
        yield statement
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left.extend(getattr(statement, part, ()))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    """Returns the full names of the modules that a statement may import; without a package, relative imports are left
    out."""
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


class _ModuleRecorder(cloudpickle.Pickler):
    """Records the modules of pickled classes and functions; its output is not used."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self.modules: set[str] = set()
        self.sources: list[str] = []
        """Texts of rules, which are sent with the topology, but without their imports."""

    def reducer_override(self, obj: Any) -> Any:
        """Called with every object that is not of a simple type."""
        if isinstance(obj, (type, FunctionType)):
            self.modules.add(obj.__module__ or "")
        elif isinstance(obj, ModuleType):
            self.modules.add(obj.__name__)
        elif isinstance(getattr(obj, "source", None), str) and isinstance(getattr(obj, "place", None), str):
            self.sources.append(obj.source)
        elif isinstance(getattr(obj, "place", None), str) and obj.place.replace(".", "a").isidentifier():
            self.modules.add(obj.place)  # a rule that names its module
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


def _main_source(modules: Iterable[str]) -> Iterator[str]:
    """Yields the text of the program, whose classes are sent by value, without its imports; for a notebook, imports of
    the modules of its names."""
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


def code_files(place: Path) -> Iterator[Path]:
    """Returns the files of a module or package, ordered by name, without generated ones: hidden files, caches,
    environments."""
    if place.is_file():
        yield place
        return
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _GENERATED)
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith("."))


# An archive of modules, which Spark unpacks on each executor; the same modules give the same archive.


PREFIX = "windbolt-code-"
"""Prefix of the folders to which archives are unpacked."""
MOST_BYTES = 64 * 2**20
"""Most bytes in the files of an archive: code is smaller, and data next to it would be sent needlessly."""
_SENT_FILE = re.compile(rf"[^\s\"']*/{PREFIX}[0-9a-f]{{16}}/([^\s\"':]+)")
"""Matches a file of an archive by its path on an executor; the group is its name in the archive."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(folder: str, places: Mapping[str, str]) -> tuple[str, str]:
    """Writes an archive of modules; ``places``: their files and folders, by name.

    Returns its path, and the name of the folder to which it will be unpacked, which follows from the content. Raises
    ConfigError if the content is too large.
    """
    found = list(_entries(places))
    _check_size(found)
    digest = hashlib.sha256()
    draft = os.path.join(folder, f"{PREFIX}draft.zip")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, file in found:
            data = file.read_bytes()
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, 1)
    name = f"{PREFIX}{digest.hexdigest()[:16]}"
    path = os.path.join(folder, f"{name}.zip")
    os.replace(draft, path)
    return path, name


def _entries(places: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yields the files, with their names in the archive."""
    for name, place in sorted(places.items()):
        root = Path(place)
        for file in code_files(root):
            inside = Path(name + file.suffix) if root == file else Path(name, file.relative_to(root))
            yield inside.as_posix(), file


def _check_size(found: list[tuple[str, Path]]) -> None:
    sizes = {name: file.stat().st_size for name, file in found}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            f"the modules that the topology imports have {total / 2**20:,.0f} MiB, with all files in their packages",
            why=f"they are sent to every executor, at most {MOST_BYTES // 2**20} MiB; the largest is {largest}, "
            f"with {sizes[largest] / 2**20:,.0f} MiB",
            do="keep data outside of packages, or install the package on the workers (pip install)",
        )


# Gives executors the code of a run: this windbolt, and the user's modules.


_HOME = Path(__file__).resolve().parents[2]


def archive_contents(users: dict[str, str]) -> list[dict[str, str]]:
    """Returns the contents of each archive for executors, as paths by name: the user's modules, and windbolt."""
    windbolt = {name: str(_HOME / name) for name in WINDBOLT}
    return [places for places in (users, windbolt) if places]


def ship(context: SparkContext, users: dict[str, str]) -> list[str]:
    """Sends the user's modules (files and folders by name), and windbolt itself, to all present and later executors.

    They take precedence over installed packages, so all processes of a run have the same code. Returns the names of the
    folders to which Spark unpacks them.
    """
    names = [_add_archive(context, places) for places in archive_contents(users)]
    includes = context._python_includes
    assert includes is not None
    # The last archive comes first in sys.path; archives of earlier runs are not used by this run.
    includes[:] = [name for name in includes if not name.startswith(PREFIX)] + names[::-1]
    return names


def with_local_paths(users: Mapping[str, str], text: str) -> str:
    """Returns a text from an executor with the paths of the user's modules on this machine."""

    def own(match: re.Match[str]) -> str:
        top = match[1].partition("/")[0]
        place = users.get(top.removesuffix(".py"))
        return match[0] if place is None else place + match[1].removeprefix(top)

    return _SENT_FILE.sub(own, text)


def forget_other_modules(names: Iterable[str]) -> None:
    """Called in a worker: removes modules that another run has sent, loaded or not."""
    wanted = tuple(names)
    sys.path[:] = [path for path in sys.path if _sent_folder(path) in (None, *wanted)]
    for name, module in list(sys.modules.items()):
        folder = _sent_folder(getattr(module, "__file__", None) or "")
        if folder is not None and folder not in wanted and name.partition(".")[0] not in WINDBOLT:
            del sys.modules[name]


def _add_archive(context: SparkContext, places: dict[str, str]) -> str:
    """Adds an archive to a session, which may already have it; returns the name of its folder."""
    path, name = write_archive(context._temp_dir, places)
    if not any(archive.partition("#")[0].endswith(f"/{name}.zip") for archive in context.listArchives):
        context.addArchive(f"{Path(path).as_uri()}#{name}")
    return name


def _sent_folder(path: str) -> str | None:
    """Returns the name of the archive's folder that contains a path; None if no such folder does."""
    return next((part for part in path.split(os.sep) if part.startswith(PREFIX)), None)
