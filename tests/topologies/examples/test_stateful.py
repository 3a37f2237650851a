"""The bolt to copy that keeps state answers its scenario."""

from __future__ import annotations

from pathlib import Path

import topologies.examples
from windbolt import replay


def test_it_answers_its_scenario() -> None:
    answer = replay(Path(topologies.examples.__file__).parent / "stateful" / "balances.yaml")
    assert answer.ok, answer.differences
