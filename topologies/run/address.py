"""The address at which a run serves its metrics or its page: a port of this machine, or a host with a port."""

from __future__ import annotations

from typing import NamedTuple

from windowing.errors import ConfigError

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = frozenset({LOOPBACK, "localhost", "::1"})
"""What this machine calls itself."""
PAGE_PORT = 8765
"""The port of a page where none is given."""
_DO = "give a port from 1 to 65535, such as 9464, or a host with one, such as 0.0.0.0:9464"


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOCAL_NAMES

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(given: int | str, what: str = "the metrics") -> Address:
    """The address that ``9464``, ``"9464"``, ``"0.0.0.0:9464"`` or ``"[::1]:9464"`` stands for.

    A port alone is one of the loopback interface, which other machines cannot reach. ``what`` is served there.
    Raises ConfigError for an invalid port.
    """
    host, colon, port = str(given).strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if isinstance(given, bool) or (colon and not host):
        raise ConfigError(f"{what} at {given!r}", why="that is not an address", do=_DO)
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ConfigError(f"{what} at {given!r}", why=f"{port!r} is not a port", do=_DO)
    return Address(host or LOOPBACK, int(port))
