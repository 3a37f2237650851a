"""A run on a checkpoint in HDFS that kills itself before its n-th change there: ``dying.py FILES PLACE N``.

It prints how many changes it has made by its end, if it comes to that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from manager.storage import hdfs
from tests.helpers.races import topology
from topologies.local import run_local
from topologies.run.options import RunOptions

CHANGES = ("open_writer", "rename", "_delete")


def counted(change: Callable[..., Any], seen: list[int], last: int) -> Callable[..., Any]:
    """The operation, before which the process dies when its turn has come."""

    def instead(*given: Any, **named: Any) -> Any:
        seen.append(0)
        if len(seen) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return change(*given, **named)

    return instead


def main() -> None:
    """The run."""
    files, place, last = sys.argv[1:]
    seen: list[int] = []
    for name in CHANGES:
        setattr(hdfs._Handler, name, counted(getattr(hdfs._Handler, name), seen, int(last)))
    run_local(topology(files, f"{place}/out"), RunOptions(checkpoint=f"{place}/ck"))
    print(len(seen))


if __name__ == "__main__":
    main()
