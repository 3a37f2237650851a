"""What several threads need for a while, each for its own: the first one sets it up, the last one takes it back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock


class Together:
    """Blocks that may overlap, in which something is set up."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        """How many blocks are being run, and what ends it, by what it is set up for."""

    @contextmanager
    def during(self, owner: Hashable, begin: Callable[[], Callable[[], None]]) -> Iterator[None]:
        """A block for whose time it is set up; ``begin`` does that, and returns what takes it back."""
        with self._lock:
            count, end = self._users.get(owner) or (0, begin())
            self._users[owner] = count + 1, end
        try:
            yield
        finally:
            with self._lock:
                count, end = self._users.pop(owner)
                if count > 1:
                    self._users[owner] = count - 1, end
                else:
                    end()
