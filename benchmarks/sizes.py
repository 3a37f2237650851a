"""How much of everything."""

from __future__ import annotations

from dataclasses import dataclass

ALL: None = None
"""A micro-batch of all files."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of events, of runs and of batches."""

    runs: int = 3
    events: int = 5_000_000
    side: int = 5_000_000
    """With 100,000 keys, and from a DataFrame."""
    batch: int = 500_000
    check: int = 5_000_000
    """Events of the checked run, at most."""
    check_many_keys: int = 1_000_000
    """The same with 100,000 keys: windows then have as many rows as events."""
    slow: int = 500_000
    """For peers that take minutes for more; events per second count."""
    slow_spark: int = 2_000_000
    """The same for Spark's stateful processor: several batches."""
    drain: int = 50_000_000
    drain_slow: int = 5_000_000
    """For Spark's own W4, whose windows hold each event ten times."""
    drain_side: int = 10_000_000
    """As ``side``, for a backlog; 0: left out."""
    drain_trial: int = 20_000_000
    """The part on which each system's best size of a batch is found."""
    drain_sizes: tuple[int | None, ...] = (500_000, 2_500_000, 5_000_000, 10_000_000, ALL)
    growth: int = 30_000_000
    growth_batch: int = 2_500_000
    growth_rates: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Events per second of event time; a window of 10 s holds ten times as many."""
    overlaps: tuple[int, ...] = (1, 10, 100)
    overlap: int = 10_000_000
    latency_files: int = 110
    latency_warm: int = 10
    """Files at the start that are not counted."""
    kafka_seconds: int = 60
    """Of records, whose results are counted."""
    kafka_warm: int = 20
    """Seconds before, whose results are not."""
    step: int = 1_000_000
    """Orders of the aggregation step."""
    step_slow: int = 100_000
    """For Spark's own, which takes minutes for more."""
    step_batch: int = 250_000
    local: int = 5_000_000
    local_batch: int = 2_500_000
    file_rows: int = 250_000
    main_arms_only: bool = False


FULL = Sizes()
QUICK = Sizes(
    runs=1,
    events=1_000_000,
    side=250_000,
    check=250_000,
    check_many_keys=100_000,
    drain=1_000_000,
    drain_slow=500_000,
    drain_side=0,
    drain_sizes=(ALL,),
    growth=1_000_000,
    growth_batch=500_000,
    growth_rates=(1_000, 10_000),
    overlaps=(1, 10),
    overlap=1_000_000,
    latency_files=12,
    latency_warm=4,
    kafka_seconds=15,
    kafka_warm=10,
    step=100_000,
    step_batch=50_000,
    local=1_000_000,
    local_batch=500_000,
    main_arms_only=True,
)
