"""Something that dies before each of its operations on files, in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from tests.helpers.examples import every
from tests.simulation.disk import Crash, Disk
from tests.simulation.faults import WRITES


def deaths(disk: Disk, action: Callable[[], object]) -> Iterator[int]:
    """Yields the number of each operation before which it died; the end is that the action did not die.

    By default it dies before each fifth of them, with ``--all`` before each.
    """
    for number in itertools.count(1, every(5)):
        count = itertools.count(1)

        def before(operation: str, path: str) -> None:
            if operation in WRITES and next(count) == number:  # noqa: B023 - called within this turn
                disk.dead = True
                raise Crash

        disk.before = before
        disk.start()
        try:
            action()
        except Crash:
            yield number
            continue
        disk.before = lambda operation, path: None
        return
