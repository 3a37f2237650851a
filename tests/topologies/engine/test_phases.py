"""The phases of a batch: how long each took, and who is called as it begins."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.manifest import batch_key
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import PHASES, Crash, MicroBatch, Phases
from topologies.run.attempts import Observers, RunObserver
from windbolt import TopologyBuilder, sinks, spouts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock in seconds that a test moves."""
    now = [100.0]
    monkeypatch.setattr("topologies.engine.micro_batch.time", SimpleNamespace(perf_counter=lambda: now[0]))
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


class Noting(RunObserver):
    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)


def test_a_run_that_is_watched_crashes_where_it_is_to_and_those_who_watch_hear_of_it() -> None:
    builder, noting = TopologyBuilder("watched"), Noting()
    builder.set_spout("events", spouts.memory("n long"))
    builder.set_sink("out", sinks.memory()).from_("events")
    micro_batch = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())

    def crash(phase: str) -> None:
        if phase == "sinks":
            raise Crash

    micro_batch.hook = crash
    Observers([noting]).begin(micro_batch, list)
    with pytest.raises(Crash):
        micro_batch.run(BatchPlan(0, TimeAdvance(0), []))
    assert noting.phases == ["ingest", "compact", "sinks"]
