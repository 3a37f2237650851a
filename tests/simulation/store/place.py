"""The store in which a world keeps its checkpoint and what it writes, and the drivers that use it."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any, Self
from unittest.mock import patch

from manager.storage import object_store, segment_files
from tests.simulation.disk import Crash
from tests.simulation.faults import Weather
from tests.simulation.store.drivers import Driver, Drivers
from tests.simulation.store.filesystem import StoreFileSystem
from tests.simulation.store.objects import BUCKET, Objects, StoreClient
from tests.simulation.store.watching import Watch

_MOST = 20_000
"""Requests of one life: a run that makes more comes to no end."""


class EndlessRequests(BaseException):
    """A run continues asking."""


class StorePlace:
    """One store, its requests watched."""

    def __init__(
        self, chance: random.Random, weather: Weather, keep: int, committed: Callable[[Any, str], None]
    ) -> None:
        """``committed`` is called with a run and the key of its batch, once the store has it."""
        self.chance, self.weather = chance, weather
        self.objects = Objects(chance)
        self.drivers = Drivers(chance, lambda: weather.dying_in is not None)
        self.watch = Watch(keep, self._has_claimed, lambda key: committed(self._acting.run, key))
        self.taken_over = False
        """Whether two drivers have ever been there at once."""
        self._requests = 0
        weather.driver = lambda: self.drivers.now

    @property
    def _acting(self) -> Driver:
        found = self.objects.acting or self.drivers.now
        assert isinstance(found, Driver)
        return found

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """This process finds the objects where it asks for any store."""
        filesystem, client = StoreFileSystem(self.objects), StoreClient(self.objects)
        chance = self.chance

        class Pool(_Pool):
            order = chance

        def opened(uri: str, process: int) -> tuple[StoreFileSystem, str]:
            return filesystem, uri.partition("://")[2].rstrip("/")

        with ExitStack() as stack:
            for name, instead in [
                ("_open_filesystem", opened),
                ("_with_retries", lambda plain: plain),
                ("_store", lambda uri, bucket, process: client),
                ("ThreadPoolExecutor", Pool),
            ]:  # fmt: skip
                stack.enter_context(patch.object(object_store, name, instead))
            yield

    def anew(self) -> None:
        """Now it is an empty store that nothing happens to."""
        self.objects.anew()
        self.forget()

    def forget(self) -> None:
        """A new process has read nothing."""
        segment_files.forget_pieces()

    def live(self, body: Callable[[], None], *, calm: bool) -> list[Driver]:
        """One life, of one driver or several; these, when all have ended."""
        self.forget()
        self._requests = 0
        if calm or self.chance.random() < 0.5:
            self.objects.arrive()
        self.objects.before = self._counted if calm else self._before
        self.objects.made, self.objects.deleted = self.watch.made, self.watch.deleted
        self.objects.owner = lambda: self.drivers.now
        self.weather.second = lambda: self._another(body)
        _open_cached_properties(len(sys.modules))
        self.drivers.run(Driver("the first", body))
        return self.drivers.all

    def _another(self, body: Callable[[], None]) -> None:
        self.taken_over = True
        self.drivers.add(Driver(f"number {len(self.drivers.all) + 1}", body))

    def _counted(self, kind: str, path: str) -> str:
        self._requests += 1
        if self._requests > _MOST:
            raise EndlessRequests(f"{_MOST} requests, the last one: {kind} {path}")
        return ""

    def _before(self, kind: str, path: str) -> str:
        self._counted(kind, path)
        self.drivers.turn(_contested(kind, path))
        driver = self.drivers.now
        assert driver is not None
        if driver.dead:
            raise Crash
        if self.objects.late and self.chance.random() < 0.1:
            self.objects.arrive()
        try:
            return self.weather.of_request(kind, path.removeprefix(f"{BUCKET}/"))
        except Crash:
            driver.dead = True
            return self.chance.choice(
                ["it is not sent", "it is not sent", "it is the last", "it arrives after a death"]
            )

    def _has_claimed(self) -> None:
        for driver in self.drivers.all:
            driver.lost = driver is not self._acting


def _contested(kind: str, path: str) -> str:
    """Why it matters who is first: another driver may make the request as well, or it gives a sink's file its name, and
    before it the file is a draft like those that dead runs have left. "" where it does not."""
    if kind == "create object" and "/spark/" in path:
        return "both may make it"
    return "it ends a draft" if kind == "copy" and "/out/" in path else ""


@cache
def _open_cached_properties(modules: int) -> None:
    """Those of so many modules. Up to Python 3.11 all objects share the lock of a ``cached_property``: a driver that
    waits for its turn in one would keep the others, which are processes of their own in truth, from going on."""
    for each in gc.get_objects() if sys.version_info < (3, 12) else ():
        if isinstance(each, cached_property):
            each.lock = nullcontext()  # type: ignore[attr-defined]


class _Pool:
    """Requests that are under way at the same time: one after the other, in any order."""

    order: random.Random

    def __init__(self, workers: int) -> None:
        """However many."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to wait for."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Call it with each item."""
        found = list(items)
        self.order.shuffle(found)
        return [function(item) for item in found]
