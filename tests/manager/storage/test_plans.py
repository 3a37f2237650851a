"""The plan of a batch: the first that was stored stays, and it is told whether it is this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from manager.storage.checkpoint import Checkpoint, FileCheckpoint, MemoryCheckpoint
from manager.storage.manifest import batch_key


@pytest.mark.parametrize("kind", [FileCheckpoint, MemoryCheckpoint])
def test_the_first_plan_of_a_batch_stays_and_is_new_once(
    kind: type[FileCheckpoint | MemoryCheckpoint], tmp_path: Path
) -> None:
    checkpoint: Checkpoint = FileCheckpoint(str(tmp_path)) if kind is FileCheckpoint else MemoryCheckpoint()
    first, second, drafted = batch_key(0, False), batch_key(1, False), {"clock": 1}
    assert checkpoint.plan(first, drafted) == ({"clock": 1}, True)
    assert checkpoint.plan(first, drafted) == ({"clock": 1}, False)  # the same dict is not the first again
    assert checkpoint.plan(first, {"clock": 2}) == ({"clock": 1}, False)
    assert checkpoint.plan(second, {"clock": 2}) == ({"clock": 2}, True)
