"""Ports of this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of the loopback interface that nobody has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
