"""Keeps the page of a run there after the end of the run, where somebody sits at a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.text import Text

from topologies.cli.terminal.consoles import err, say
from topologies.metrics.server import SERVERS
from topologies.run.address import Address
from topologies.run.options import RunOptions


class RunOfPage:
    """The run whose page may stay."""

    def __init__(self) -> None:
        self._options: RunOptions | None = None

    def of(self, options: RunOptions) -> None:
        """Called before the run; says where its page is."""
        self._options = options
        if options.page_address is not None:
            tell_page(options.page_address, "its page")

    @property
    def address(self) -> Address | None:
        """Where the page is shown that may stay; None where there is none, or the run was told to stop."""
        if self._options is None or self._options.stop.is_set():
            return None
        address = self._options.page_address
        return address if address is not None and SERVERS.has(address) else None


@contextmanager
def staying(*, as_json: bool) -> Iterator[RunOfPage]:
    """After the block, also after a run that failed, wait for Ctrl-C where the page is served and a terminal is there
    to end it from. Nowhere else: a run in a script ends when it has ended."""
    page = RunOfPage()
    try:
        yield page
    finally:
        address = page.address
        if address is not None and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            tell_page(address, "the run has ended; its page stays there until Ctrl-C")
            wait_for_interrupt()


def wait_for_interrupt() -> None:
    """Wait for Ctrl-C."""
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def tell_page(address: Address, words: str) -> None:
    """Say where a page is, on standard error."""
    say(err(), Text.assemble((f"http://{address}/", "bold cyan"), f"  {words}"))
