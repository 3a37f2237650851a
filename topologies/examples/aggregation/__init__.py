"""A ready aggregation step, written to be copied: the orders of shops become their takings.

``aggregation.conf`` is the step; ``local.conf`` and ``files.conf`` are surroundings: Kafka on this machine, or files.
"""
