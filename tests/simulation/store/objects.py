"""The objects of a store in memory: what a request does, and what may happen to it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from obstore.exceptions import AlreadyExistsError, GenericError

from tests.simulation.disk import Crash

BUCKET = "sim"
Act = Callable[[], Any]


class Bytes(NamedTuple):
    """What is got, as obstore hands it over."""

    content: bytes

    def bytes(self) -> bytes:
        """Its content."""
        return self.content


class Objects:
    """By path, the bucket first. ``before`` is called with the kind and the path of each request, and may switch to
    another driver; ``made`` and ``deleted`` after what a request has done."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.anew()

    def anew(self) -> None:
        """Nothing is there, and nothing happens."""
        self.content: dict[str, bytes] = {}
        self.before: Callable[[str, str], str] = lambda kind, path: ""
        """Returns what happens to the request: ``""`` for nothing."""
        self.made: Callable[[str, bytes], None] = lambda path, data: None
        self.deleted: Callable[[str], None] = lambda path: None
        self.late: list[Act] = []
        """Requests that are still on their way."""
        self.owner: Callable[[], object] = lambda: None
        """Who makes the request."""
        self.acting: object = None
        """Who has made the one that arrives late."""

    def request(self, kind: str, path: str, act: Act) -> Any:
        """Make a request: it is done or not, and answered or not."""
        match self.before(kind, path):
            case "it is lost":
                raise GenericError(f"{kind} {path}: HTTP error: error sending request")
            case "its answer is lost":
                act()
                raise GenericError(f"{kind} {path}: HTTP error: operation timed out")
            case "it comes again":
                act()
            case "it arrives late":
                self.late.append(self._later(act))
                raise GenericError(f"{kind} {path}: HTTP error: operation timed out")
            case "it is not sent":
                raise Crash
            case "it is the last":
                act()
                raise Crash
            case "it arrives after a death":
                self.late.append(self._later(act))
                raise Crash
        return act()

    def _later(self, act: Act) -> Act:
        owner = self.owner()

        def later() -> None:
            self.acting = owner
            try:
                act()
            finally:
                self.acting = None

        return later

    def arrive(self) -> None:
        """What was on its way arrives."""
        while self.late:
            with suppress(GenericError, AlreadyExistsError, FileNotFoundError):  # nobody waits for the answer
                self.late.pop(0)()

    # --- what requests do, at once ---

    def create(self, path: str, data: bytes) -> None:
        """Write an object where there is none."""
        if path in self.content:
            raise AlreadyExistsError(f"{path} is there")
        self.write(path, data)

    def write(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.content[path] = data
        self.made(path, data)

    def read(self, path: str) -> bytes:
        """An object."""
        if path not in self.content:
            raise FileNotFoundError(path)
        return self.content[path]

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""
        self.write(target, self.read(source))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; they may be gone."""
        for path in paths:
            if self.content.pop(path, None) is not None:
                self.deleted(path)

    def put_into(self, folder: str) -> None:
        """Write all objects to files, for who compares them."""
        for path, data in self.content.items():
            if not path.endswith("/"):
                target = f"{folder}/{path.removeprefix(f'{BUCKET}/')}"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(data)


class StoreClient:
    """What windbolt uses of obstore."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put(self, key: str, data: bytes, *, mode: str = "overwrite", use_multipart: bool) -> None:
        """Write an object; with ``mode="create"`` where there is none."""
        path = f"{BUCKET}/{key}"
        if mode == "create":
            self._objects.request("create object", path, lambda: self._objects.create(path, data))
        else:
            self._objects.request("put", path, lambda: self._objects.write(path, data))

    def get(self, key: str) -> Bytes:
        """An object."""
        path = f"{BUCKET}/{key}"
        return Bytes(self._objects.request("get", path, lambda: self._objects.read(path)))

    def get_range(self, key: str, *, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        path = f"{BUCKET}/{key}"
        found: bytes = self._objects.request("get", path, lambda: self._objects.read(path))
        if start >= len(found):
            raise GenericError(f"{path}: the range is not satisfiable")
        return found[start : start + length]

    def head(self, key: str) -> None:
        """FileNotFoundError where there is no object."""
        path = f"{BUCKET}/{key}"
        self._objects.request("look", path, lambda: self._objects.read(path))

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""
        names = f"{BUCKET}/{source}", f"{BUCKET}/{target}"
        self._objects.request("copy", names[1], lambda: self._objects.copy(*names))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, in one request."""
        paths = [f"{BUCKET}/{key}" for key in keys]
        self._objects.request("delete objects", paths[0], lambda: self._objects.delete(paths))
