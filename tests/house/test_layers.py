"""The folders import only what they may, and nothing but the clock module asks what time it is."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from tests.helpers.places import ROOT

PACKAGES = ("windowing", "policies", "manager", "topologies", "windbolt")
ARRAYS = frozenset({"numpy", "pyarrow"})
SPARK = frozenset({"pyspark", "py4j"})
SPARK_FOLDER = PurePosixPath("topologies/spark")
EXAMPLES = (
    PurePosixPath("topologies/examples/flights"),
    PurePosixPath("topologies/examples/aggregation"),
    PurePosixPath("topologies/cli/project"),
)
"""Written to be copied, as users write: they enter by the front door."""
CLOCK_FILE = PurePosixPath("topologies/run/clock.py")
READS_OF_THE_CLOCK = frozenset(
    {
        "time.time",
        "time.time_ns",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
        "pandas.Timestamp.now",
        "pandas.Timestamp.utcnow",
        "pandas.Timestamp.today",
    }
)


@dataclass(frozen=True)
class Layer:
    """What the files of one folder may import besides the standard library; None for anything."""

    project: frozenset[str]
    third_party: frozenset[str] | None
    lazily: frozenset[str] = frozenset()


LAYERS = {
    "windowing": Layer(frozenset({"windowing"}), ARRAYS, lazily=frozenset({"datasketches", "pandas"})),
    "policies": Layer(frozenset({"windowing", "policies"}), ARRAYS),
    "manager": Layer(
        frozenset({"windowing", "policies", "manager"}), ARRAYS, lazily=frozenset({"hdfs_native", "isal", "obstore"})
    ),
    "topologies": Layer(frozenset({"windowing", "policies", "manager", "topologies"}), None),
    "windbolt": Layer(frozenset({"windowing", "policies", "topologies", "windbolt"}), frozenset()),
}


ORDER = {
    "manager.storage": "sealed file_systems sealed_folder segments task_state manifest turns batch_keys"
    " verified_reads checkpoint",
    "manager": "accounts queue watermarks outside storage keyed triggered slices window_manager",
    "windowing": "errors suggestions calls time data settings window window_batch aggregates bolts",
    "windowing.bolts": "bolt_state component configured_bolt windowed_bolt asks_for_expired batch_windowed_bolt"
    " plain_bolts operators joins ready",
    "topologies": "html io graph topology compose engine sources run metrics checkpoints state_tables repairs"
    " why_waiting page preflight step named_topology scenarios local spark background replaying testing"
    " examples.flights cli examples pytest_plugin",
    "topologies.io": "formats documents dead_letters paths times patterns given_tables defaults file_metadata kafka"
    " sinks file_spout spouts messages",
    "topologies.graph": "fields_hash groupings inner_columns streams side_streams origins nodes graph rules_in_words"
    " describing as_json mermaid graph_html",
    "topologies.compose": "declarers mistakes own_key naming known_streams effects event_times checks needed_columns"
    " idle_chains default_time source_time compile_sinks compile_windowed compile_topology declared_html builder",
    "topologies.engine": "time failures rows work ledger batch admission ingest fire commit ticking tasks"
    " compaction exchange phases reporting micro_batch rehearsal",
    "topologies.step": "classpath config finding formatting missing rules bolts checking describe_step compile_step",
    "topologies.scenarios": "schema run terminal_drawing picture",
    "topologies.metrics": "logged_once instruments distributions sample health run_metrics source_lag prometheus server"
    " otel",
    "topologies.metrics.otel": "providers meters spans",
    "topologies.spark": "spark_errors through_java code process_memory near spark_executor workers jvm cluster"
    " time_metrics kafka_frames client spark_frames rows_at_once source runner spark_replay",
}
"""What is in a folder, from the bottom up: each imports only what stands before it, within functions too."""


DOORS = {
    "topologies.topology": {
        "topologies.background.start",  # topology.start() and topology.run()
        "topologies.background.background_run",
        "topologies.run.engine",
        "topologies.run.restart",
        "topologies.run.summary",
        "topologies.engine.batch.report",
        "topologies.spark.time_metrics",
    },
}
"""Methods on what users hold, which hand over to what is built on it; and for the types of these methods. Whoever
follows ``start`` comes back to the topology: that is the one circle. Whoever reads the file need not: the method only
hands over, and the file uses nothing else of what is behind the door."""


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    lazy: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def violations(path: PurePosixPath, source: str) -> list[str]:
    """Every breach in one file, as ``file:line: what``; ``path`` is relative to the top of the project."""
    tree = ast.parse(source, filename=str(path))
    breaches = [*_forbidden_imports(path, tree), *_clock_reads(path, tree)]
    return [f"{path}:{line}: {what}" for line, what in sorted(breaches)]


def _forbidden_imports(path: PurePosixPath, tree: ast.Module) -> Iterator[tuple[int, str]]:
    folder = path.parts[0]
    layer = LAYERS[folder]
    for found in _imports(path, tree):
        top = found.top
        if top in SPARK:
            if not path.is_relative_to(SPARK_FOLDER):
                yield found.line, f"{top} is imported outside {SPARK_FOLDER}/"
        elif top in PACKAGES:
            if top == "windbolt" and any(path.is_relative_to(example) for example in EXAMPLES):
                continue
            if top not in layer.project:
                yield found.line, f"{folder} must not import {top}"
        elif top in sys.stdlib_module_names or layer.third_party is None or top in layer.third_party:
            continue
        elif top not in layer.lazily:
            yield found.line, f"{folder} must not import {top}"
        elif not found.lazy:
            yield found.line, f"{folder} may import {top} only inside a function or under TYPE_CHECKING"


def _imports(path: PurePosixPath, node: ast.AST, *, lazy: bool = False) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, node.lineno, lazy)
        case ast.ImportFrom(module=module, level=level):
            package = path.parts[: len(path.parts) - level] if level else ()
            yield Import(".".join([*package, module or ""]) if package else module or "", node.lineno, lazy)
        case ast.Call(func=func, args=[ast.Constant(value=str(module)), *_]) if _last_name(func) in {
            "import_module",
            "__import__",
        }:
            yield Import(module, node.lineno, lazy)
    in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    only_for_types = node.body if isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING" else []
    for child in ast.iter_child_nodes(node):
        yield from _imports(path, child, lazy=lazy or in_function or child in only_for_types)


def _clock_reads(path: PurePosixPath, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if path == CLOCK_FILE:
        return
    names = _imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            full_name = _full_name(node, names)
            if full_name in READS_OF_THE_CLOCK:
                yield node.lineno, f"{full_name} is read outside {CLOCK_FILE}"


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for; ``from time import time as now`` makes now time.time."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _full_name(node: ast.expr, names: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attribute):
            owner = _full_name(value, names)
            return f"{owner}.{attribute}" if owner else None
    return None


def _last_name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_the_files_of_a_package_keep_to_their_layer(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"no files found in {ROOT / package}"
    breaches = [
        breach
        for file in files
        for breach in violations(PurePosixPath(file.relative_to(ROOT).as_posix()), file.read_text(encoding="utf-8"))
    ]
    assert not breaches, "\n" + "\n".join(breaches)


def test_no_file_imports_what_imports_it() -> None:
    """Not for types either, nor within functions: who reads one file of a circle has to read them all.

    ``DOORS`` are the exception.
    """
    imports = {_module(file): _imported(file) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    graph = {
        module: {name for name in names if name in imports and name != module} for module, names in imports.items()
    }
    circles = [" -> ".join(circle) for circle in _circles(graph)]
    assert not circles, "\n" + "\n".join(circles)


@pytest.mark.parametrize("folder", ORDER)
def test_what_is_in_a_folder_imports_only_what_is_below_it(folder: str) -> None:
    rooms = ORDER[folder].split()
    breaches = []
    for file in sorted((ROOT / folder.replace(".", "/")).rglob("*.py")):
        name = _module(file)
        if name == folder:
            continue  # what it exports
        here = _room(name, folder, rooms)
        assert here is not None, f"{name} has no place in ORDER"
        for imported in sorted(_imported(file)):
            there = _room(imported, folder, rooms)
            if there is not None and rooms.index(there) > rooms.index(here):
                breaches.append(f"{name} imports {imported}")
    assert not breaches, "\n" + "\n".join(breaches)


def _room(module: str, folder: str, rooms: list[str]) -> str | None:
    """What of a folder a module is in; of two that hold it, the inner one."""
    holding = [room for room in rooms if f"{module}.".startswith(f"{folder}.{room}.")]
    return max(holding, key=len, default=None)


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _imported(file: Path) -> frozenset[str]:
    """All modules that a file imports, and names of them, which may be modules too."""
    path = PurePosixPath(file.relative_to(ROOT).as_posix())
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    names = {found.module for found in _imports(path, tree)}
    doors = DOORS.get(_module(file), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
            if all((ROOT / Path(*node.module.split("."), f"{alias.name}.py")).is_file() for alias in node.names):
                names.discard(node.module)  # of a package only some files
    return frozenset(name for name in names if not any(f"{name}.".startswith(f"{door}.") for door in doors))


def _circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """A way around, for each group of modules that import each other; see Tarjan's strongly connected components."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        order[module] = lowest[module] = len(order)
        open_.append(module)
        for name in sorted(graph[module]):
            if name not in order:
                yield from visit(name)
                lowest[module] = min(lowest[module], lowest[name])
            elif name in open_:
                lowest[module] = min(lowest[module], order[name])
        if lowest[module] == order[module]:
            at = open_.index(module)
            group = open_[at:]
            del open_[at:]
            if len(group) > 1:
                yield sorted(group)

    for module in sorted(graph):
        if module not in order:
            yield from visit(module)


@pytest.mark.parametrize("module", DOORS)
def test_behind_a_door_a_method_only_hands_over(module: str) -> None:
    """The imports stand in methods whose last statement returns what is behind, or are for types alone."""
    path = PurePosixPath(*module.split(".")).with_suffix(".py")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    used = {found.module for found in _imports(path, tree)} & DOORS[module]
    assert used == DOORS[module], "a door that nobody goes through"
    assert [found for found in _imports(path, tree) if found.module in DOORS[module] and not found.lazy] == []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        if any(found.module in DOORS[module] for found in _imports(path, function)):
            docstring, imported, *rest = function.body
            assert isinstance(docstring, ast.Expr)
            assert isinstance(imported, ast.ImportFrom)
            assert isinstance(rest[-1], ast.Return)
            assert len(rest) <= 2, f"{function.name} does more than to hand over"


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d", "e"}}
    assert list(_circles({module: names - {module} for module, names in graph.items()})) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("path", "source", "what"),
    [
        ("windowing/a.py", "import policies", "windowing must not import policies"),
        ("windowing/a.py", "from manager.queue import Queue", "windowing must not import manager"),
        ("windowing/a.py", "import rich", "windowing must not import rich"),
        ("windowing/a.py", "import numpy as np, yaml", "windowing must not import yaml"),
        ("windowing/a.py", "import pandas as pd", "only inside a function"),
        ("windowing/a.py", "class A:\n    import pandas", "only inside a function"),
        ("windowing/a.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import pandas", "only inside a function"),
        ("windowing/a.py", "if TYPE_CHECKING:\n    from policies import Lag", "must not import policies"),
        ("policies/a.py", "def f():\n    import pandas", "policies must not import pandas"),
        ("policies/a.py", "from manager import WindowManager", "policies must not import manager"),
        ("policies/a.py", "import importlib\nimportlib.import_module('manager')", "must not import manager"),
        ("policies/deep/a.py", "from ...topologies import clock", "must not import topologies"),
        ("manager/a.py", "import topologies.run.clock", "manager must not import topologies"),
        ("manager/a.py", "import pydantic", "manager must not import pydantic"),
        ("topologies/a.py", "from pyspark.sql import SparkSession", "pyspark is imported outside"),
        ("topologies/sparkling/a.py", "import pyspark", "pyspark is imported outside"),
        ("topologies/a.py", "if TYPE_CHECKING:\n    import pyspark", "pyspark is imported outside"),
        ("topologies/a.py", "def f():\n    __import__('pyspark')", "pyspark is imported outside"),
        ("topologies/a.py", "from windbolt import seconds", "topologies must not import windbolt"),
        ("windbolt/a.py", "import numpy", "windbolt must not import numpy"),
        ("manager/a.py", "import time\ntime.time()", "time.time is read"),
        ("manager/a.py", "import time as t\ndef f(now=t.time_ns): ...", "time.time_ns is read"),
        ("manager/a.py", "from time import time as now\nnow()", "time.time is read"),
        ("manager/a.py", "import datetime\ndatetime.datetime.utcnow()", "datetime.datetime.utcnow is read"),
        (
            "manager/clock.py",
            "from datetime import datetime as dt\ndt.now()",
            "datetime.datetime.now is read",
        ),
        ("topologies/a.py", "import pandas as pd\npd.Timestamp.now()", "pandas.Timestamp.now is read"),
    ],
)
def test_a_breach_is_found(path: str, source: str, what: str) -> None:
    (breach,) = violations(PurePosixPath(path), source)
    assert breach.startswith(f"{path}:")
    assert what in breach


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "windowing/a.py",
            "import json\nimport numpy as np\nfrom pyarrow import compute\nfrom . import errors",
        ),
        ("windowing/a.py", "def f():\n    import pandas"),
        ("windowing/a.py", "import typing\nif typing.TYPE_CHECKING:\n    import pandas as pd"),
        ("windowing/deep/a.py", "from ..errors import WindboltError"),
        ("policies/a.py", "from windowing import seconds\nfrom policies import lag"),
        (
            "manager/a.py",
            "import time\nimport windowing, policies.lag\ntime.perf_counter(), time.monotonic()",
        ),
        ("topologies/a.py", "import typer\nfrom manager import WindowManager"),
        ("topologies/spark/a.py", "from pyspark.sql import SparkSession"),
        ("topologies/run/clock.py", "import time\ntime.time_ns()"),
        ("topologies/examples/flights/a.py", "from windbolt import seconds"),
        ("manager/a.py", "def f(self, time):\n    return self.datetime.now() + time.time()"),
    ],
)
def test_what_is_allowed_passes(path: str, source: str) -> None:
    assert violations(PurePosixPath(path), source) == []


def test_a_breach_names_its_line() -> None:
    assert violations(PurePosixPath("policies/a.py"), "import numpy\n\nimport manager\n") == [
        "policies/a.py:3: policies must not import manager"
    ]
