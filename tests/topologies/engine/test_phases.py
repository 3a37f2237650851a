"""How long the phases of a batch took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from manager.storage.batch_keys import batch_key
from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.phases import PHASES, Phases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock in seconds that a test moves."""
    now = [100.0]
    monkeypatch.setattr("topologies.engine.phases.time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


def test_the_phases_add_up_to_the_total_with_what_is_done_between_them(clock: list[float]) -> None:
    begun: list[str] = []
    batch = Phases(batch_key(0, False), MemoryCheckpoint(), begun.append)
    clock[0] += 1  # before the first
    for name in ("ingest", "tick", "fire", "tick", "fire", "compact", "sinks", "commit", "publish"):
        with batch.phase(name):
            clock[0] += 10
        clock[0] += 1
    seconds = batch.end()
    total = seconds.pop("total")
    assert seconds == {"ingest": 11, "tick": 22, "fire": 22, "compact": 11, "sinks": 11, "commit": 11, "publish": 11}
    assert sum(seconds.values()) == total == 99
    assert set(begun) == set(PHASES)
