"""The reaper: a small process beside the driver that, when the driver dies, ends all processes that it started.

    python -I -S reaping.py DRIVER

Each watched process is the leader of a session, so that its children can be identified. Process ids arrive on standard
input: ``+123 0`` to watch 123, ``+124 20`` to give 124 another 20 s to end by itself, ``-123`` once 123 has ended. The
end of standard input is the end of the driver. Only the standard library is imported here, and no user code runs, so
that nothing can interfere.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

_POLL_SECONDS = 1.0
"""Seconds between checks of the driver, because its fork may keep standard input open."""


def end_session(leader: int) -> None:
    """Kills the leader of a session and all processes still in the session."""
    for _ in range(5):  # a process may start another one meanwhile
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        still_running = followers(leader)
        if not still_running:
            return
        for process in still_running:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def followers(leader: int) -> list[int]:
    """Returns the processes in a session, without its leader; empty without ``/proc``."""
    members = []
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in processes:
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:
                state, _parent, _group, session = stat.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it has just ended
        if int(session) == leader and int(name) != leader and state not in (b"Z", b"X"):
            members.append(int(name))
    return members


def main() -> None:
    """Waits for the end of the driver, then ends the processes that it started."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    driver, partial_line, watched = int(sys.argv[1]), b"", dict[int, float]()
    while True:
        alive = os.getppid() == driver
        if not select.select([0], [], [], _POLL_SECONDS if alive else 0)[0]:
            if alive:
                continue
            break  # and all its input has been read
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *lines, partial_line = (partial_line + chunk).split(b"\n")
        for line in lines:
            sign, leader, *patience = chr(line[0]), *line[1:].split()
            if sign == "+":
                watched[int(leader)] = float(patience[0])
            else:
                watched.pop(int(leader), None)
    ended = time.monotonic()
    for process, seconds in sorted(watched.items(), key=lambda each: each[1]):
        while _runs(process) and time.monotonic() < ended + seconds:
            time.sleep(0.05)
        end_session(process)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    main()
