"""A ready aggregation step, written to be copied: the orders of shops become their takings.

``aggregation.conf`` is the step; ``local.conf`` and ``files.conf`` say where it runs: with Kafka on this machine, or
with files.
"""
