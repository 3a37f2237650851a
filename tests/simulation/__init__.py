"""Whole runs of the local engine in a simulated world: one process, one thread, every fault from a seed.

    python -m tests.simulation --seeds 1000 [--from 0] [--minutes 5]

Real are the engine, its checkpoint, its segments, its sinks, its sources and its bolts. Simulated are what lies under
and around them: the file system and what a death or a power cut leaves of it (disk.py), the clock, and the executor of
the tasks (executor.py). A seed decides about the topology and its input (world/) and about the faults (faults.py).
After the faults the output, the state and the files must be those of a run without faults (judging.py).
"""
