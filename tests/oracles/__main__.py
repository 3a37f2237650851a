"""`python -m tests.oracles 5000 [seed]`: so many random scenarios, half of Azure and half of StreamInsight."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from random import randrange

from tests.oracles.answers import azure_answers, streaminsight_answers
from tests.oracles.azure_cases import azure_case
from tests.oracles.holding import Held, hold
from tests.oracles.streaminsight_cases import streaminsight_case

SYSTEMS = {"azure": (azure_case, azure_answers), "streaminsight": (streaminsight_case, streaminsight_answers)}


def _part(system: str, first: int, last: int, seed: int) -> Held:
    make, oracle = SYSTEMS[system]
    return hold(make, oracle, range(first, last), seed)


def _campaign(cases: int, seed: int) -> int:
    differing = 0
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for system in SYSTEMS:
            numbers = range(0, cases // 2, 50)
            parts = [pool.submit(_part, system, n, min(n + 50, cases // 2), seed) for n in numbers]
            done = [part.result() for part in parts]
            compared, unsaid = sum(part.compared for part in done), sum(part.unsaid for part in done)
            wrong = sum(len(part.differences) for part in done)
            for part in done:
                if part.differences:
                    print(part.shown())
            print(f"{system}, seed {seed}: {compared} compared, {wrong} differ, {unsaid} left open by the documents")
            differing += wrong
    return 1 if differing else 0


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    sys.exit(_campaign(given[0] if given else 1000, given[1] if len(given) > 1 else randrange(10**6)))
