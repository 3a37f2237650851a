"""Sources of events: ``builder.set_spout("orders", spouts.files("orders/*.jsonl"))``."""

from topologies.io.spouts import AnySpout, files, kafka, memory, stream

__all__ = ["AnySpout", "files", "kafka", "memory", "stream"]
