"""Several drivers in one process: exactly one continues at a time, and before each request another one may."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Driver:
    """A process that runs the topology."""

    name: str
    body: Callable[[], None]
    """What it does; all that it raises is its end."""
    dead: bool = False
    """Whether it has died: what it does while Python unwinds it reaches the store no more."""
    justified: bool = False
    """Whether something has happened to it after which it may end with an error."""
    lost: bool = False
    """Whether another one has claimed the checkpoint since it did."""
    run: Any = None
    ended: bool = False
    error: BaseException | None = None
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Drivers:
    """Those of one life; the first one is the process that has been started as ever, others take over."""

    def __init__(self, chance: random.Random, held: Callable[[], bool]) -> None:
        self.chance, self.held = chance, held
        """``held``: whether the one that continues must not be interrupted."""
        self.all: list[Driver] = []
        self.now: Driver | None = None
        self.share = 0.0
        """How often another one continues before a request."""
        self.contested: dict[str, float] = {}
        """And before one of these kinds (``place._contested``)."""

    def run(self, first: Driver) -> None:
        """Run this one, and all that come meanwhile, to their ends."""
        self.all, self.now = [first], first
        self._finish(first)
        while self._others():
            self._switch(first)

    def add(self, driver: Driver) -> None:
        """Another one comes, and continues."""
        assert self.now is not None
        self.all.append(driver)
        self.share = self.chance.choice([0.0, 0.0, 0.02, 0.1, 0.4])
        self.contested = self.chance.choice(
            [{}, {"both may make it": 0.5, "it ends a draft": 0.5}, {"it ends a draft": 1.0}]
        )
        threading.Thread(target=self._thread, args=[driver], daemon=True).start()
        self._switch(self.now, driver)

    def turn(self, contested: str = "") -> None:
        """Called by the one that continues, before each of its requests. ``contested``: why it matters most who is
        first."""
        if self.now is None or self.held() or not self._others():
            return
        if self.chance.random() < max(self.share, self.contested.get(contested, 0.0)):
            self._switch(self.now)

    def _others(self) -> list[Driver]:
        return [driver for driver in self.all if driver is not self.now and not driver.ended]

    def _switch(self, before: Driver, to: Driver | None = None) -> None:
        self.now = to or self.chance.choice(self._others())
        self.now.gate.release()
        before.gate.acquire()

    def _thread(self, driver: Driver) -> None:
        driver.gate.acquire()
        self._finish(driver)
        self.now = next(iter(self._others()), self.all[0])
        self.now.gate.release()

    def _finish(self, driver: Driver) -> None:
        try:
            driver.body()
        except BaseException as error:
            driver.error = error
        driver.ended = True
