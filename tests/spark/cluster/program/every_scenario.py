"""Scenarios on the cluster: ``every_scenario.py MASTER FILE ...``.

Prints how many there were, and what is wrong with those that came out otherwise than they expect.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from topologies.scenarios.scenario_model import LoadedScenario, load
from topologies.spark.classic_session import open_session
from topologies.spark.spark_replay import replay_on_spark


def main(master: str, *files: str) -> None:
    spark, _ = open_session(master, {})
    wrong: dict[str, list[str]] = {}
    count = 0
    for folder in sorted({str(Path(file).parent) for file in files}):
        os.chdir(folder)  # where their topologies are
        loaded = [item for file in files if str(Path(file).parent) == folder for item in load(Path(file))]
        chosen = [item.scenario for item in loaded if isinstance(item, LoadedScenario)]
        answers = replay_on_spark(chosen, spark=spark)
        wrong |= {answer.name: answer.differences for answer in answers if not answer.ok}
        count += len(answers)
    spark.stop()
    print(json.dumps({"scenarios": count, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
