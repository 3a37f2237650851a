"""One windowed bolt over one streaming DataFrame, without a topology of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from topologies.background import Run
from topologies.io import sinks, spouts
from topologies.io.sinks import Sink
from topologies.run.options import Restart
from topologies.topology import TopologyBuilder
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls import checked
from windowing.durations import Duration


@checked
def windowed(
    frame: Any,
    bolt: WindowedBolt,
    *,
    checkpoint: str | os.PathLike[str],
    by: str | Sequence[str] | None = None,
    sink: Sink | str | None = None,
    parallelism: int = 1,
    every: Duration | timedelta | str | None = None,
    keep_open: bool = False,
    restart: Restart | None = None,
    name: str = "windowed",
) -> Run:
    """Start one windowed bolt over a streaming DataFrame, in the session of the DataFrame, and return the run.

    It is a topology of one spout (``frame``), one bolt and one sink (``out``), with all that a topology promises:
    ``TopologyBuilder`` is for several of these, and for late events. ``by`` names the columns whose values share a
    task; without it they are those of the bolt's own key. ``sink`` is a sink, or the name of a table in Spark's
    catalog; without it the rows are Parquet files in the folder ``output`` of the checkpoint.
    ``run.frame()`` is a DataFrame of what has been written until then, except where the sink is a function or Kafka.

    Without ``every`` the run ends with the rows that are there now. ``every``, ``keep_open`` and ``restart`` are those
    of ``Topology.start``; ``name`` is shown in Spark's UI, and a checkpoint belongs to one name. Raises ConfigError or
    TopologyError where these do not fit; every other error is raised by ``run.wait()``.
    """
    if sink is None:
        sink = sinks.files(os.path.join(os.fspath(checkpoint), "output"))
    elif isinstance(sink, str):
        sink = sinks.table(sink)
    builder = TopologyBuilder(name)
    spouts.check_streaming(frame, "windowed")
    builder.set_spout("frame", spouts.stream(frame))
    declarer = builder.set_bolt("bolt", bolt, parallelism)
    columns = [by] if isinstance(by, str) else by or ()
    if columns or bolt.settings.key or bolt.groups_by or parallelism > 1:
        declarer.fields_grouping("frame", *columns)
    else:
        declarer.global_grouping("frame")
    builder.set_sink("out", sink).from_("bolt")
    spark = frame.sparkSession
    return builder.build().start(checkpoint, spark=spark, every=every, keep_open=keep_open, restart=restart, show=False)
