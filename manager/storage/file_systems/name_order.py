"""Which local file systems keep the order of changes of names, so that one that is on disk implies all before it."""

from __future__ import annotations

import os
from functools import cache

_KEEPING = frozenset({"ext3", "ext4", "xfs"})
"""They have one journal: the sync of any file also writes all changes of names before it (decision 39)."""
_MOUNTS = "/proc/self/mountinfo"


def keeps_order(path: str) -> bool:
    """Whether the file system of an existing path is known to keep the order of changes of names."""
    return _type_of(os.stat(path).st_dev) in _KEEPING


@cache
def _type_of(device: int) -> str:
    """The type of a mounted file system; "" where the system does not say, as for volumes of Btrfs and on macOS."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                mounted, _, kind = line.partition(" - ")
                if mounted.split()[2] == number:
                    return kind.split()[0]
    except OSError:
        return ""
    return ""
