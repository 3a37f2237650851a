"""``python -m tests.oracles.interpreter 5000 [seed]``: so many drawn cases, and what differs, made small."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from random import randrange

from tests.oracles.interpreter.holding import Held, hold


def _part(first: int, last: int, seed: int) -> Held:
    return hold(range(first, last), seed, stop_at=3)


def main(number: int, seed: int) -> int:
    done = Held()
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        parts = [pool.submit(_part, n, min(n + 100, number), seed) for n in range(0, number, 100)]
        for part in parts:
            held = part.result()
            done.add(held)
            for difference in held.differences:
                print(difference.shown(), flush=True)
    print(f"seed {seed}: {done.held} held, {len(done.differences)} differ, {done.refused} refused")
    return 1 if done.differences else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(given[0] if given else 1000, given[1] if len(given) > 1 else randrange(10**6)))
