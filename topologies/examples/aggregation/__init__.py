"""A ready aggregation step to copy: the orders of shops become their takings.

``aggregation.conf`` is the step. ``local.conf`` and ``files.conf`` add its surroundings: Kafka on this machine, or
files.
"""
