"""``windbolt run --otel`` over the network: what a collector is sent, and what happens where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.orders_and_refunds import order, write
from tests.helpers.otlp import Receiver, receiver
from tests.helpers.places import ROOT

TOPOLOGY = """
from pathlib import Path

from tests.helpers.orders_and_refunds import shop

topology = shop(Path(__file__).parent)
"""
NOWHERE = "http://127.0.0.1:9"
"""A port at which nobody listens."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "orders", 1, [order(0), order(1, "bob"), order(3)])
    write(tmp_path / "orders", 2, [order(0.1, "eve"), order(4), order(6.5, "bob")])
    write(tmp_path / "refunds", 1, [order(0), order(2)])
    (tmp_path / "shop.py").write_text(TOPOLOGY)
    return tmp_path


def run(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``windbolt run`` in a process of its own, with these variables."""
    others = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-m", "windbolt", "run", "shop.py:topology", "--engine", "local", "--json", *options]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command,
        cwd=folder,
        env={**others, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def reported(done: subprocess.CompletedProcess[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The objects of the batches, and that of the run."""
    assert done.returncode == 0, done.stderr
    *batches, whole = map(json.loads, done.stdout.splitlines())
    return batches, whole


def values(received: Receiver, name: str, *labels: str) -> dict[tuple[str, ...], int | float]:
    """The points of a sum or a gauge, by some of their attributes."""
    metric = received.last_metrics()[name]
    points = (metric.sum if metric.HasField("sum") else metric.gauge).data_points
    found = {}
    for point in points:
        given = {each.key: each.value.string_value for each in point.attributes}
        found[tuple(given[label] for label in labels)] = point.as_int or point.as_double
    return found


def test_a_collector_is_sent_what_the_reports_say(folder: Path) -> None:
    with receiver() as received:
        batches, _ = reported(run(folder, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=received.url))
    assert received.services() == {"windbolt"}
    spans = received.spans()
    of_batches = [span for span in spans if span.name == "windbolt.batch"]
    assert len(of_batches) == len(batches) == 3
    assert len({span.trace_id for span in of_batches}) == 3
    assert all(span.parent_span_id in {batch.span_id for batch in of_batches} for span in spans if span.parent_span_id)
    names = {span.name for span in spans}
    phases = {f"windbolt.{phase}" for phase in ("ingest", "tick", "fire", "compact", "sinks", "commit", "publish")}
    assert names == {"windbolt.batch", "windbolt.window"} | phases
    last = batches[-1]["bolts"]
    assert values(received, "windbolt.windows.fired", "bolt") == {(name,): of["fired"] for name, of in last.items()}
    for bolt, of in last.items():
        counted = values(received, "windbolt.events", "bolt", "stream", "account")
        for stream, accounts in of["streams"].items():
            assert counted[bolt, stream, "late"] == accounts["late"]
            assert counted[bolt, stream, "windowed"] == accounts["windowed"]
    assert values(received, "windbolt.run.healthy", "topology") == {("shop",): 1}
    metric = received.last_metrics()["windbolt.window.emit_delay"]
    assert sum(point.count for point in metric.histogram.data_points) == sum(of["fired"] for of in last.values())


@pytest.mark.extended
def test_the_variables_say_what_is_sent_and_under_which_name(folder: Path) -> None:
    with receiver() as received:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "OTEL_SERVICE_NAME": "till"}
        reported(run(folder, "--otel", **variables, OTEL_TRACES_EXPORTER="none"))
        assert {path for path, _ in received.requests} == {"/v1/metrics"}
        assert received.services() == {"till"}
        received.requests.clear()
        reported(run(folder, "--otel", **variables, OTEL_METRICS_EXPORTER="none"))
        assert {path for path, _ in received.requests} == {"/v1/traces"}
        received.requests.clear()
        reported(run(folder, "--otel", **variables, OTEL_SDK_DISABLED="true"))
        assert received.requests == []


@pytest.mark.extended
def test_without_a_collector_the_run_is_the_same(folder: Path) -> None:
    def without_times(done: subprocess.CompletedProcess[str]) -> list[Any]:
        batches, _ = reported(done)
        return [{bolt: of["accounts"] for bolt, of in batch["bolts"].items()} for batch in batches]

    began = time.monotonic()
    told = run(folder, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=NOWHERE, OTEL_EXPORTER_OTLP_TIMEOUT="2")
    assert time.monotonic() - began < 60, "it does not wait forever"
    assert without_times(told) == without_times(run(folder))
    assert "Connection refused" in told.stderr
