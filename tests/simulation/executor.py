"""The simulated executor: tasks in any order, that die and are run again, run twice, or come back after the commit."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tests.simulation.faults import TaskDied, Weather
from topologies.engine.batch import Context
from topologies.engine.failures import in_this_process
from topologies.graph.graph import Graph


class SimulatedExecutor:
    """Runs the tasks of a run as Spark may: each attempt with a copy of the item, as a worker has it."""

    def __init__(self, weather: Weather, chance: random.Random, late: list[Callable[[], Any]]) -> None:
        """``late``: attempts that are still under way, also those of drivers that have died."""
        self.weather, self.chance, self.late = weather, chance, late
        self.slots = chance.randint(1, 3)

    def load(self, topology: Graph) -> None:
        """They have the topology."""

    def close(self) -> None:
        """There is nothing to free."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """The results in the order of the items, whatever the order in which they come."""
        while self.late and self.chance.random() < 0.3:
            self._come_late(self.late.pop(0))
        results: dict[int, Any] = {}
        order = list(range(len(items)))
        self.chance.shuffle(order)
        for at in order:
            results[at] = self._run(function, items[at], context)
        return [results[at] for at in range(len(items))]

    def _run(self, function: Callable[[Any, Context], Any], item: Any, context: Context) -> Any:
        packed = pickle.dumps(item)

        def attempt() -> Any:
            return in_this_process(partial(function, pickle.loads(packed), context))

        match self.weather.of_task():
            case "a task dies":
                self.weather.dying_in = self.chance.randint(0, 6)
                try:
                    return attempt()
                except TaskDied:
                    return attempt()
                finally:
                    self.weather.dying_in = None
            case "a task runs twice":
                results = [attempt(), attempt()]
                return self.chance.choice(results)
            case "a task comes late":
                self.late.append(attempt)
        return attempt()

    def _come_late(self, attempt: Callable[[], Any]) -> None:
        """Nobody waits for the answer, nor for the error."""
        try:
            attempt()
        except Exception as error:
            self.weather.happened.append(f"life {self.weather.life}: a late task ends with {type(error).__name__}")
        else:
            self.weather.happened.append(f"life {self.weather.life}: a late task ends")
