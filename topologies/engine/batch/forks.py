"""Child processes that bolts fork."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_this_process(function: Callable[[], T]) -> T:
    """What a function returns, that calls users' code.

    That code may fork: the child is a copy of this process, and would go on with this process's work once it has left
    the user's code, so it ends here instead, with status 0, or 1 after an exception, which it prints.
    """
    mine = os.getpid()
    try:
        result = function()
    except BaseException:
        if os.getpid() != mine:
            traceback.print_exc()
            os._exit(1)
        raise
    if os.getpid() != mine:
        os._exit(0)
    return result
