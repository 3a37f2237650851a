"""Both engines of a test that runs a topology on either, or begins on one of them and goes on with the other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark import tools
from tests.spark.kafka import local_tools

ENGINES: dict[str, Any] = {"spark": tools, "local": local_tools}
"""The module with ``run`` and ``run_until`` of each."""
BEGUN_AND_FINISHED = pytest.mark.parametrize(
    ("begun", "finished"),
    [
        ("local", "local"),
        ("spark", "spark"),
        pytest.param("local", "spark", marks=pytest.mark.extended),
        pytest.param("spark", "local", marks=pytest.mark.extended),
    ],
)
"""The engine on which a run dies, and the one that continues it."""
