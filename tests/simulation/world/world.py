"""A plan that is run: its topology in a folder, its input, and what its sinks were called with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from tests.simulation.broker import Broker
from tests.simulation.world.making import makes
from tests.simulation.world.plan import Format, WorldPlan
from topologies.graph.graph import Graph
from topologies.run.options import RunOptions
from windowing.errors import ConfigError

Calls = dict[int, list[list[dict[str, Any]]]]

STEP, KAFKA, STORE = "a step", "a topic of Kafka", "an object store"
PLACE = "s3://sim"
"""The bucket of the store."""


class CannotBeBuilt(Exception):
    """What was drawn does not fit together."""


class Told(NamedTuple):
    """A bolt with rules that an oracle knows."""

    rules: dict[str, Any]
    inputs: tuple[str, ...]
    format: Format


class World:
    """What is run in a folder."""

    def __init__(self, plan: WorldPlan, folder: str) -> None:
        self.plan, self.folder = plan, folder
        self.place = PLACE if plan.store else folder
        """What the checkpoint and the sinks are below."""
        self.calls: Calls = {}
        """What the function of a sink was given, each time, by the number of the step."""
        self.before_call: Callable[[], None] = lambda: None
        """Called before the function of a sink."""
        self.broker = Broker() if plan.kafka else None
        self.tasks = {bolt.name: bolt.tasks for bolt in plan.bolts}
        """How many tasks bolts have in the runs that begin now."""
        self._topologies: dict[tuple[int, ...], Graph] = {}
        try:
            self._topologies[tuple(self.tasks.values())] = makes(plan, folder, self._called, self.place)
        except (ConfigError, ValueError) as error:  # TopologyError, which names all mistakes
            raise CannotBeBuilt(plan) from error

    @property
    def topology(self) -> Graph:
        """One for all processes: to build it takes longer than to run a batch, and what they know is not in it."""
        return self.with_tasks(self.tasks)

    def with_tasks(self, tasks: Mapping[str, int]) -> Graph:
        """The topology with other numbers of tasks."""
        wanted = tuple(tasks.get(name, number) for name, number in self.tasks.items())
        if wanted not in self._topologies:
            bolts = tuple(replace(bolt, tasks=number) for bolt, number in zip(self.plan.bolts, wanted, strict=True))
            self._topologies[wanted] = makes(replace(self.plan, bolts=bolts), self.folder, self._called, self.place)
        return self._topologies[wanted]

    @property
    def told(self) -> dict[str, Told]:
        """The bolts of which an oracle knows what their windows hold."""
        return {
            bolt.name: Told(bolt.rules, bolt.inputs, bolt.sinks[bolt.name])
            for bolt in self.plan.bolts
            if isinstance(bolt.rules, dict) and bolt.sinks
        }

    def options(self, **rest: Any) -> RunOptions:
        """Those of a run."""
        return RunOptions(f"{self.place}/ck", keep_batches=self.plan.keep, **rest)

    def deliver(self, portion: int) -> None:
        """Put what comes into the folders of the input, or give it to the broker."""
        if self.broker is not None:
            for name, lines in self.plan.portions[portion].files.items():
                self.broker.append(int(name.rpartition("/")[2]), lines)
            return
        for spout in self.plan.spouts:
            os.makedirs(f"{self.folder}/{spout}", exist_ok=True)
        portions = self.plan.portions
        portions[portion].deliver(self.folder, sum(len(each.files) for each in portions[:portion]))

    def _called(self, table: pa.Table, step: int) -> None:
        self.before_call()
        self.calls.setdefault(step, []).append(table.to_pylist())


def parts_of(plan: WorldPlan) -> list[str]:
    """What of the settings, windows and bolts that can be drawn is in it."""
    found = [] if plan.step is None else [STEP, f"step by {plan.step['trigger']['type']}"]
    found += [KAFKA] * plan.kafka + [STORE] * plan.store
    for bolt in plan.bolts:
        found += ["told"] if isinstance(bolt.rules, dict) else [bolt.rules, bolt.does, bolt.meeting]
    return [each for each in found if each]


def words_of(plan: WorldPlan) -> list[str]:
    """The topology, for people."""
    found = [f"names of files: their order is {'kept' if plan.names == 'kept' else 'not kept'}"]
    if plan.store:
        found = ["the checkpoint and the sinks are in an object store"]
    if plan.step is not None:
        found.append(f"an aggregation step: {plan.step}")
    for bolt in plan.bolts:
        rules = str(bolt.rules) if isinstance(bolt.rules, dict) else f"{bolt.rules}: {bolt.made}"
        found.append(f"{bolt.name}: {rules}, {bolt.does or 'a ready bolt'}, {bolt.tasks} tasks, of {bolt.inputs}")
        if bolt.then is not None:
            found.append(f"{bolt.name}-then: windows of {bolt.then}, of {bolt.name}")
    return found
