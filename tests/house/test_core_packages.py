"""The core can be embedded where there is neither Spark nor anything else of the engine: numpy and pyarrow are enough.
And the engine starts without packages that few of its parts need.

``[tool.importlinter]`` in pyproject.toml keeps the arrows between the packages; this is about what is imported at
the top of a file.
"""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.places import ROOT

IMPORTS_ALL = """
import importlib, pkgutil, sys

CORE = ("windowing", "policies", "manager")

class Refusing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        pythons = top in sys.stdlib_module_names or top.startswith("_")  # such as _sysconfigdata__linux_x86_64
        if not pythons and top not in (*CORE, "numpy", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
for package in CORE:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
"""


def test_the_core_is_imported_with_numpy_and_pyarrow_alone() -> None:
    command = [sys.executable, "-c", IMPORTS_ALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


STARTS_LIGHT = """
import sys
import topologies.engine.tasks
assert not {"pandas", "pydantic", "typer"} & sys.modules.keys(), "a worker needs none of these to start"
import topologies.cli.app
assert "pandas" not in sys.modules, "no command needs it to start"
"""


def test_what_is_slow_to_import_is_imported_when_it_is_needed() -> None:
    """Else each command takes half a second longer, and each worker process a tenth."""
    done = subprocess.run([sys.executable, "-c", STARTS_LIGHT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
