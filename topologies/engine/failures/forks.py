"""Ends child processes that users' code forks."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_this_process(function: Callable[[], T]) -> T:
    """Call a function that runs users' code, and return its result.

    That code may fork. The child is a copy of this process and would continue with this process's work after leaving
    the user's code, so it is ended here instead: with status 0, or 1 after an exception, which it prints.
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
