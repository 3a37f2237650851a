"""One HDFS for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.hdfs import Hdfs, hdfs
from tests.helpers.races import FILES, alone, write_input


@pytest.fixture(scope="session")
def store() -> Iterator[Hdfs]:
    with hdfs() as running:
        yield running


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the input of ``tests.helpers.races``."""
    folder = tmp_path_factory.mktemp("in")
    write_input(str(folder))
    return str(folder)


@pytest.fixture(scope="session")
def inside(store: Hdfs, files: str) -> str:
    """The same input in HDFS."""
    for number in range(FILES):
        store.put(f"in/{number}.jsonl", Path(files, f"{number}.jsonl").read_bytes())
    return store.uri("in")


@pytest.fixture(scope="session")
def expected(store: Hdfs, files: str) -> dict[str, bytes]:
    """What a run that nothing disturbs publishes of local input."""
    return alone(store, files)
