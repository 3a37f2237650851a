"""Destinations of results: ``builder.set_sink("out", sinks.files("out/", format="jsonl"))``."""

from topologies.io.sinks import Sink, console, discard, files, foreach_batch, kafka, memory, table

__all__ = ["Sink", "console", "discard", "files", "foreach_batch", "kafka", "memory", "table"]
