"""Where another run has taken a checkpoint over, that is what is wrong, whatever failed for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.file_systems.storage_errors import UNREADABLE
from windowing.errors import TakenOver


@contextmanager
def telling_who_took_over(checkpoint: FileCheckpoint) -> Iterator[None]:
    """Errors become TakenOver where another run has the checkpoint: what that has changed since is not damage, and a
    query that Spark ended for its sake is not to be started again."""
    try:
        yield
    except TakenOver:
        raise
    except Exception as error:
        try:
            checkpoint.check_owner()
        except TakenOver as lost:
            raise lost from error
        except UNREADABLE:
            pass
        raise
