"""What overlapping blocks share is set up by the first and taken back by the last."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from topologies.spark.java import SharedSetup


def noting(said: list[str], owner: str) -> Callable[[], Callable[[], None]]:
    def begin() -> Callable[[], None]:
        said.append(f"begin {owner}")
        return lambda: said.append(f"end {owner}")

    return begin


def test_the_first_begins_and_the_last_ends_whichever_that_is() -> None:
    together, said = SharedSetup(), list[str]()
    first, second = (together.during("a", noting(said, "a")) for _ in range(2))
    with together.during("b", noting(said, "b")):
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert said == ["begin b", "begin a"]
        second.__exit__(None, None, None)
        assert said == ["begin b", "begin a", "end a"]
    with together.during("a", noting(said, "a")):
        pass
    assert said == ["begin b", "begin a", "end a", "end b", "begin a", "end a"]


def test_what_could_not_be_begun_is_begun_by_the_next() -> None:
    together, said = SharedSetup(), list[str]()

    def fails() -> Callable[[], None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), together.during("a", fails):
        said.append("within")
    with pytest.raises(KeyError), together.during("a", noting(said, "a")):
        raise KeyError
    assert said == ["begin a", "end a"]


def test_threads_overlap() -> None:
    together, said, both = SharedSetup(), list[str](), Barrier(2, timeout=30)

    def run() -> None:
        with together.during("a", noting(said, "a")):
            both.wait()

    threads = [Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["begin a", "end a"]
