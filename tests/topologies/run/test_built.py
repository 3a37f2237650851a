"""What is no topology is told in words, whoever is to run it."""

from __future__ import annotations

from typing import Any

import pytest

from topologies import TopologyBuilder
from topologies.local import run_local
from topologies.testing.driver import TopologyDriver
from topologies.testing.replaying import replay
from windowing import ConfigError

SCENARIO: Any = {"name": "nothing", "steps": []}


@pytest.mark.parametrize(
    "run", [run_local, TopologyDriver, lambda given: replay(SCENARIO, given)], ids=["run_local", "driver", "replay"]
)
def test_only_what_has_been_built_is_run(run: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        run(TopologyBuilder("orders"))
    assert raised.value.why == "a builder is not a topology yet"
    assert raised.value.do == "give builder.build()"
    with pytest.raises(ConfigError, match=r"give the topology that builder\.build\(\) returns"):
        run("orders")
