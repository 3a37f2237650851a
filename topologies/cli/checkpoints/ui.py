"""``windbolt ui``: a run on a page, from its checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from topologies.cli.staying import tell_page, wait_for_interrupt
from topologies.cli.terminal.failing import Debug, readable_errors
from topologies.run.address import PAGE_PORT, address_of


def ui(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    port: Annotated[str, typer.Option(metavar="[HOST:]PORT", help="Where to serve the page.")] = str(PAGE_PORT),
    debug: Debug = False,
) -> None:
    """Show the runs on a checkpoint on a page in the browser, until Ctrl-C.

    A run on the checkpoint may be in progress.
    """
    from topologies.page.site import show_page
    from topologies.page.stored_run import StoredRun

    with readable_errors(debug=debug):
        address = address_of(port, "the page")
        show_page(address, StoredRun(folder))
        tell_page(address, "the runs on the checkpoint, until Ctrl-C")
        wait_for_interrupt()
