"""The address at which a run serves its metrics: a port of this machine, or a host with a port."""

from __future__ import annotations

from typing import NamedTuple

from windowing.errors import ConfigError

LOOPBACK = "127.0.0.1"
_DO = "give a port from 1 to 65535, such as 9464, or a host with one, such as 0.0.0.0:9464"


class Address(NamedTuple):
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(given: int | str) -> Address:
    """The address that ``9464``, ``"9464"``, ``"0.0.0.0:9464"`` or ``"[::1]:9464"`` stands for.

    A port alone is one of the loopback interface, which other machines cannot reach. Raises ConfigError for what is no
    port.
    """
    host, colon, port = str(given).strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if isinstance(given, bool) or (colon and not host):
        raise ConfigError(f"the metrics at {given!r}", why="that is no address", do=_DO)
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ConfigError(f"the metrics at {given!r}", why=f"{port!r} is not a port", do=_DO)
    return Address(host or LOOPBACK, int(port))
