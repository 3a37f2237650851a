"""``python -m tests.oracles.interpreter 5000 [seed]``: so many drawn bolts and topologies; what differs, made small."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from random import randrange

from tests.oracles.interpreter import graph_holding, holding


def _part(first: int, last: int, seed: int) -> tuple[int, int, list[str]]:
    """How many were held and refused, and what differs."""
    bolts = holding.hold(range(first, last), seed, stop_at=3)
    graphs = graph_holding.hold(range(first, last), seed, stop_at=3)
    found = [*(each.shown() for each in bolts.differences), *graphs.differences]
    return bolts.held + graphs.held, bolts.refused + graphs.refused.total(), found


def main(number: int, seed: int) -> int:
    held, refused, differ = 0, 0, 0
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for part in [pool.submit(_part, n, min(n + 100, number), seed) for n in range(0, number, 100)]:
            more_held, more_refused, found = part.result()
            held, refused, differ = held + more_held, refused + more_refused, differ + len(found)
            for difference in found:
                print(difference, flush=True)
    print(f"seed {seed}: {held} held, {differ} differ, {refused} refused")
    return 1 if differ else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(main(given[0] if given else 1000, given[1] if len(given) > 1 else randrange(10**6)))
