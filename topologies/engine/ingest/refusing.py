"""Events that a windowed bolt cannot use: they are counted, the first is complained about, and all go to its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.engine.admission.recording import EmitRows
from topologies.engine.ingest.error_rows import error_rows
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.rows.rows import Rows
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import ERRORS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Unusable:
    """Events of one input that cannot be used; at least one."""

    input_index: int
    rows: pa.Table
    positions: NDArray[np.int64] | None
    """Their positions in the source; None where they are no longer known."""
    reasons: list[str]
    """Why each cannot be used."""


def refuse(node: WindowedNode, unusable: Unusable, clock: int, ledger: Ledger, emit: EmitRows, copies: int = 1) -> None:
    """Count the events as invalid and emit them on the error stream of the bolt, each once for every copy.

    ``clock`` is in microseconds. Raises DataError where the topology stops on invalid input.
    """
    rows, positions, reasons = unusable.rows, unusable.positions, unusable.reasons
    label = node.streams[unusable.input_index]
    ledger.count(node, unusable.input_index, "invalid", rows.num_rows * copies)
    ledger.complain(node.name, label, reasons[0] if positions is None else f"row {positions[0]}: {reasons[0]}")
    bad = error_rows(node.name, label, rows, positions, reasons)
    for _ in range(copies):
        emit((node.name, ERRORS), Rows.made(bad, clock))
