"""The window core alone, one thread, no Spark: events per CPU-second beside Storm's own Java classes.

    python benchmarks/core.py [--events 10000000]

The bolt sums one column of every window. Storm's figures (window manager alone, one thread, 1,000 events per
event-time second, a watermark every 1,000 events): 6.6 million events per CPU-second on tumbling 1 s, 1.36 million on
sliding 10 s / 1 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from manager.watermarks import WaterMarkEventGenerator
from manager.window_manager import WindowManager
from policies.eviction import WatermarkTimeEvictionPolicy
from policies.trigger import WatermarkTimeTriggerPolicy
from windowing.durations import Duration, seconds
from windowing.events import Events
from windowing.timestamps import FOREVER

STORM = {"tumbling 1 s": 6.6e6, "sliding 10 s / 1 s": 1.36e6}
KINDS = {"tumbling 1 s": (seconds(1), seconds(1)), "sliding 10 s / 1 s": (seconds(10), seconds(1))}


def run(
    kind: tuple[Duration, Duration], timestamps: np.ndarray, values: np.ndarray, tick_every: int, lag: Duration
) -> tuple[float, int, float]:
    """CPU-seconds, windows and the sum of all windows' sums, for the events in order of arrival."""
    length, slide = kind
    eviction, trigger = WatermarkTimeEvictionPolicy(length, lag=lag), WatermarkTimeTriggerPolicy(slide)
    generator = WaterMarkEventGenerator(lag=lag)
    manager = WindowManager(eviction, trigger)
    payload = pa.record_batch({"value": values})
    windows, total = 0, 0.0
    started = time.process_time()
    for at in range(0, len(timestamps), tick_every):
        arrived = timestamps[at : at + tick_every]
        late = _late(arrived, generator.watermark)
        generator.observe({"default": int(arrived.max())})
        batch = payload.slice(at, tick_every)
        if late.any():
            arrived, batch = arrived[~late], batch.filter(pa.array(~late))
        manager.add(Events(arrived, batch))
        watermark = generator.tick()
        if watermark is not None:
            for window in manager.advance(trigger.frontier(watermark, watermark)):
                total += window.column("value").sum()
                windows += 1
    for window in manager.advance(FOREVER):
        total += window.column("value").sum()
        windows += 1
    return time.process_time() - started, windows, total


def _late(timestamps: np.ndarray, watermark: int | None) -> np.ndarray:
    """Which of these times are earlier than the watermark."""
    return np.zeros(len(timestamps), np.bool_) if watermark is None else timestamps < watermark


def check(kind: tuple[Duration, Duration], timestamps: np.ndarray, values: np.ndarray, total: float) -> None:
    """Every event is in length / slide windows, so the sum of sums is known."""
    overlap = kind[0].micros // kind[1].micros
    expected = values.sum() * overlap
    if abs(total - expected) > abs(expected) * 1e-9:
        raise SystemExit(f"wrong result: {total} instead of {expected}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    random = np.random.default_rng(7)
    values = random.random(options.events)
    print(f"{options.events:,} events, one thread; best of {options.runs} runs, CPU time of the process")
    print(
        f"{'window':20} {'events/s of event time':>22} {'tick every':>11} {'order':>9} "
        f"{'M events/CPU-s':>15} {'x Storm':>8}"
    )
    for name, kind in KINDS.items():
        for rate in (1_000, 10_000):
            ordered = 1_700_000_000_000_000 + np.arange(options.events, dtype=np.int64) * (1_000_000 // rate)
            arrival = np.argsort(ordered + random.integers(0, 2_000_000, options.events), kind="stable")
            for order, timestamps, lag in (
                ("in order", ordered, seconds(0)),
                ("2 s off", ordered[arrival], seconds(2)),
            ):
                for tick_every in (100_000, 1_000):
                    best = min(run(kind, timestamps, values, tick_every, lag) for _ in range(options.runs))
                    check(kind, timestamps, values, best[2])
                    speed = options.events / best[0]
                    print(
                        f"{name:20} {rate:22,} {tick_every:11,} {order:>9} "
                        f"{speed / 1e6:15.2f} {speed / STORM[name]:8.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
