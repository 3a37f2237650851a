"""``python -m tests.oracles.interpreter 5000 [seed]``: so many drawn bolts and topologies; what differs, made small."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from random import randrange

from tests.oracles.interpreter.holding import Held, case, hold, topology_case


def _part(first: int, last: int, seed: int) -> tuple[Held, Held]:
    """What became of these bolts and topologies."""
    bolts = hold((case(number, seed) for number in range(first, last)), stop_at=3)
    return bolts, hold((topology_case(number, seed) for number in range(first, last)), stop_at=3)


def main(number: int, seed: int) -> int:
    held, refused, differ = 0, 0, 0
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for part in [pool.submit(_part, n, min(n + 100, number), seed) for n in range(0, number, 100)]:
            for found in part.result():
                held, refused, differ = held + found.held, refused + found.refused, differ + len(found.differences)
                for difference in found.differences:
                    print(difference, flush=True)
    print(f"seed {seed}: {held} held, {differ} differ, {refused} refused")
    return 1 if differ else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(given[0] if given else 1000, given[1] if len(given) > 1 else randrange(10**6)))
