"""Where events come from: ``builder.set_spout("orders", spouts.files("orders/*.jsonl"))``."""

from topologies.io.spouts import Spout, files, kafka, memory, stream

__all__ = ["Spout", "files", "kafka", "memory", "stream"]
