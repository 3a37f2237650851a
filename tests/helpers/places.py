"""Where things lie: in this project, and the Java of this machine."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SCENARIOS = TESTS / "scenarios"
CORPUS = TESTS / "corpus"


def java_command() -> str:
    """Return the command that starts the Java that Spark uses: JAVA_HOME's, or else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"
