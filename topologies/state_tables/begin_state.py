"""``windbolt.state.begin``: a checkpoint that begins with events from tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from topologies.checkpoints.beginning import begin_with
from topologies.run.built import check_built
from topologies.run.clock import system_clock
from topologies.state_tables.read_state import bolts
from topologies.topology import Topology
from windowing.calls.checked import checked


@checked
def begin(checkpoint: str | os.PathLike[str], topology: Topology, events: Mapping[str, Any]) -> pa.Table:
    """Make a new checkpoint whose windows hold events from before; ``state.begin("ck/", topology, {"orders": table})``.

    ``events``: by spout, rows with its columns in order of arrival: a pyarrow table, a DataFrame of pandas, or a list
    of dicts or tuples. They take the way of all events, as one batch before the first: watermarks move, windows fire
    and bolts are called; but what goes to sinks is discarded. The first run on the checkpoint then reads the input from
    its beginning, on either engine: leave out of it what was given here.

    Returns the table of ``state.bolts``. Raises ConfigError for a spout that the topology does not have, and where a
    watermark follows the partitions of Kafka; DataError for rows without a usable time; CheckpointError where something
    is at that place. If it is interrupted, no run begins on the checkpoint, and to call it again starts over.
    """
    check_built("state.begin", topology)
    place = os.fspath(checkpoint)
    begin_with(place, topology, events, system_clock)
    return bolts(place)
