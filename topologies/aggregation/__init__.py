"""A ready aggregation step, written to be copied: the orders of shops become takings, and the end of each shop's day.

``aggregation.conf`` is the step, ``local.conf`` and ``files.conf`` are its surroundings: Kafka on this machine, or files.
"""
