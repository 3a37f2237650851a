"""The Python of Spark's workers on this machine, where a session is not windbolt's own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from pyspark import SparkContext

from topologies.run.masters import on_this_machine
from windowing.errors import EnvironmentMissing

_NAMES = ("PYSPARK_PYTHON", "spark.pyspark.python")
_NEEDED = ("topologies", "numpy", "pandas", "pyarrow")
_QUESTION = (
    "import importlib.util, platform, sys; "
    "print(platform.python_version(), *(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))"
)


def agree_on_python(context: SparkContext) -> None:
    """Let the workers be of the driver's Python where nobody has named one: Spark takes ``python3``, which is another
    one where a virtual environment is not activated. Raises EnvironmentMissing for a Python that was named, and that
    cannot run a topology.

    The executors of a cluster are asked themselves (``cluster/preflight.py``).
    """
    if not on_this_machine(context.master or "") or context.pythonExec == sys.executable:
        return
    conf = context.getConf()
    named = next((name for name in _NAMES if os.environ.get(name) or conf.get(name)), None)
    if named is None:
        context.pythonExec = sys.executable
        return
    wrong = _wrong_with(context.pythonExec)
    if wrong:
        raise EnvironmentMissing(
            f"the Python of Spark's workers cannot run a topology: {context.pythonExec} {wrong}",
            why=f"{named} names it; the driver is Python {platform.python_version()}, {sys.executable}",
            do="before the session is made, set os.environ['PYSPARK_PYTHON'] = sys.executable, or leave it out; "
            "or install there what is missing",
        )


def _wrong_with(python: str) -> str:
    """What keeps a Python from running tasks; "" where nothing does."""
    command = [python, "-c", _QUESTION, *_NEEDED]
    try:
        # Spark starts workers in the driver's environment.
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        version, *missing = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"does not start ({error})"
    if version.rsplit(".", 1)[0] != platform.python_version().rsplit(".", 1)[0]:
        return f"is Python {version}"
    return f"has no {', '.join(missing)}" if missing else ""
