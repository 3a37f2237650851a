"""Events on their way in: merged, routed through plain bolts to the queues of windowed bolts and the sinks."""
