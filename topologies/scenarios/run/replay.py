"""Replaying scenarios: through the micro-batches of the real engine, in this process or on Spark."""

from __future__ import annotations

from topologies.engine.batch.plan import BatchPlan
from topologies.engine.rehearsal import Rehearsal
from topologies.scenarios.run.comparing import judge, judge_midway
from topologies.scenarios.run.run_recording import Recording
from topologies.scenarios.run.scenario_answer import (
    Replayed,
)
from topologies.scenarios.run.scenario_topology import fed_by, watched_topology
from topologies.scenarios.run.script import ScriptSplit, script
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.topology import Topology


def replay_locally(scenario: Scenario, topology: Topology | None = None) -> Replayed:
    """The answer to a scenario, in this process; what it expects in between is asked of one that ends there."""
    answer = _replayed(scenario, topology)
    return judge_midway(answer, {place: _replayed(prefix, topology) for place, prefix in scenario.midway.items()})


def _replayed(scenario: Scenario, topology: Topology | None) -> Replayed:
    built = watched_topology(scenario, topology)
    scenario = fed_by(scenario, built)
    recording = Recording()
    run = Rehearsal(built, recording.watch)
    for number, batch in enumerate(script(scenario)):
        split = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        plan = BatchPlan(number, batch.advance, [split] if batch.arrivals else [], run=run.micro_batch.run_id)
        report = run.run(plan, crash_at="commit" if batch.crash else None)
        assert report is not None
        recording.note(batch, report)
    return judge(scenario, recording.answer(scenario, built, run.micro_batch.manifest, run.checkpoint.segments))
