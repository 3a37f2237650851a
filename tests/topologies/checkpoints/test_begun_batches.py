"""A batch has been sent and not committed when its state changes: what comes then is not taken for what is there."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.s3 import S3
from tests.spark.tools import at_phase, crashed
from topologies.checkpoints.going_back import go_back, reset_bolts
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.savepoint import take_savepoint
from topologies.local import LocalRun
from topologies.topology import Topology
from windbolt import CheckpointError, RunOptions, TopologyBuilder, WindowedBolt, run_local, sinks, spouts, state


class Total(WindowedBolt):
    """The sum of each window."""

    outputs = "value string"

    def execute(self, window: Any) -> Any:
        """A row."""
        return (f"{window.column('user')[0]} {sum(window.column('price'))}",)


def topology(folder: Path, sink: Any, length: str = "10s", tasks: int = 2) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout(
        "orders",
        spouts.files(folder / "in", "user string, price long, ts timestamp", format="jsonl", files_per_batch=1),
    )
    bolt = Total().with_tumbling_window(length).with_key("user").with_timestamp_field("ts")
    builder.set_bolt("revenue", bolt, tasks).fields_grouping("orders", "user")
    builder.set_sink("out", sink).from_("revenue")
    return builder.build()


def write(folder: Path) -> None:
    """A file a batch; each of them ends the windows of the one before."""
    (folder / "in").mkdir()
    for number in range(4):
        rows = [{"user": user, "price": 1, "ts": 1000 * (10 * number + second)} for second in (1, 2) for user in "abcd"]
        (folder / "in" / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Topic:
    """What has been sent, also by attempts that died: by the id of each record, its values."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = defaultdict(set)

    def run(self, built: Topology, checkpoint: Any) -> LocalRun:
        attempt = LocalRun(built, RunOptions(str(checkpoint), keep_open=True, keep_batches=20))
        attempt.kafka.check = lambda topology: None  # type: ignore[method-assign]
        attempt.kafka.send = self.send  # type: ignore[method-assign]
        return attempt

    def send(self, node: Any, batch: Any, sink_rows: Any, store: Any) -> None:
        for rows in sink_rows:
            for number, row in enumerate(store.read(rows.ref).to_pylist(), rows.first):
                self.sent[f"{batch.record_name(node.name, rows)}/{number}"].add(row["value"])


KAFKA = sinks.kafka("127.0.0.1:1", "totals")
BEGUN = 2


def gone_back(folder: Path, checkpoint: Any) -> tuple[Topology, Any]:
    go_back(PairedCheckpoint(str(checkpoint)), "0000000000")
    (folder / "in" / "1.jsonl").write_text('{"user": "a", "price": 9, "ts": 11000}\n')
    return topology(folder, KAFKA), checkpoint


def repaired(folder: Path, checkpoint: Any) -> tuple[Topology, Any]:
    found = state.read(checkpoint, "revenue").to_pandas("events")
    found["price"] = 100
    state.repair(checkpoint, folder / "repaired", {"revenue": found})
    return topology(folder, KAFKA), folder / "repaired"


def reset(folder: Path, checkpoint: Any) -> tuple[Topology, Any]:
    other = topology(folder, KAFKA, "1s")
    reset_bolts(PairedCheckpoint(str(checkpoint)), ["revenue"], other)
    return other, checkpoint


def rescaled(folder: Path, checkpoint: Any) -> tuple[Topology, Any]:
    move_tasks(PairedCheckpoint(str(checkpoint)), {"revenue": 3})
    return topology(folder, KAFKA, tasks=3), checkpoint


def saved(folder: Path, checkpoint: Any) -> tuple[Topology, Any]:
    take_savepoint(PairedCheckpoint(str(checkpoint)), str(folder / "saved"))
    return topology(folder, KAFKA), folder / "saved"


@pytest.mark.parametrize("change", [gone_back, repaired, reset, rescaled, saved])
@pytest.mark.parametrize(
    "in_a_store", [pytest.param(False, id="here"), pytest.param(True, id="in a store", marks=pytest.mark.extended)]
)
def test_no_two_rows_have_the_same_id(
    change: Callable[[Path, Any], tuple[Topology, Any]], in_a_store: bool, store: S3, tmp_path: Path
) -> None:
    """A consumer that drops repeats would drop the second one."""
    write(tmp_path)
    topic, checkpoint = Topic(), store.uri(f"{change.__name__}/ck") if in_a_store else tmp_path / "ck"
    crashed(topic.run(topology(tmp_path, KAFKA), checkpoint), at_phase(BEGUN, "commit"))
    before = {name: set(values) for name, values in topic.sent.items()}
    with topic.run(*change(tmp_path, checkpoint)) as attempt:
        attempt.run()
    assert len(topic.sent) > len(before) > 0
    assert {name: values for name, values in topic.sent.items() if len(values) > 1} == {}
    if change is saved:
        step = f"/{2 * BEGUN}/"
        assert sum(step in name for name in topic.sent) == sum(step in name for name in before), "as it was planned"
    if change is repaired:
        assert "a 200" in set.union(*topic.sent.values())


def test_a_reset_says_whose_function_gets_a_batch_with_other_rows(tmp_path: Path) -> None:
    """A function that skips a batch that it has would lose the rows that come with its number now."""
    write(tmp_path)
    calls: list[int] = []
    called = sinks.foreach_batch(lambda rows, batch: calls.append(batch), frame="arrow")
    built, checkpoint = topology(tmp_path, called), tmp_path / "ck"
    crashed(LocalRun(built, RunOptions(str(checkpoint), keep_open=True)), at_phase(BEGUN, "commit"))
    assert calls[-1] == 2 * BEGUN
    done = reset_bolts(PairedCheckpoint(str(checkpoint)), ["revenue"], topology(tmp_path, called, "1s"))
    assert [f"sink 'out' may have been called with batch {BEGUN}; " in words for words in done.warnings] == [True]


class Users(WindowedBolt):
    """A row for each event, in order of arrival."""

    outputs = "value string"

    def execute(self, window: Any) -> Any:
        """Rows."""
        return [(value,) for value in window.column("value")]


def test_no_two_rows_have_the_same_id_where_a_bolt_before_has_other_numbers_of_tasks(tmp_path: Path) -> None:
    """Its rows come in another order then."""

    def built(tasks: int) -> Topology:
        builder = TopologyBuilder("shop")
        builder.set_spout(
            "orders",
            spouts.files(tmp_path / "in", "user string, price long, ts timestamp", format="jsonl", files_per_batch=1),
        )
        total = Total().with_tumbling_window("5s").with_key("user").with_timestamp_field("ts")
        builder.set_bolt("revenue", total, tasks).fields_grouping("orders", "user")
        builder.set_bolt("users", Users().with_tumbling_window("5s"), 1).global_grouping("revenue")
        builder.set_sink("out", KAFKA).from_("users")
        return builder.build()

    write(tmp_path)
    topic, checkpoint = Topic(), tmp_path / "ck"
    crashed(topic.run(built(2), checkpoint), at_phase(BEGUN, "commit"))
    before = len(topic.sent)
    move_tasks(PairedCheckpoint(str(checkpoint)), {"revenue": 3})
    with topic.run(built(3), checkpoint) as attempt:
        attempt.run()
    assert len(topic.sent) > before > 0
    assert {name: values for name, values in topic.sent.items() if len(values) > 1} == {}


def test_a_repaired_batch_does_not_replace_the_files_of_the_one_that_was_not(tmp_path: Path) -> None:
    """The checkpoint goes on too: a reader would have the rows of both."""
    write(tmp_path)
    out = tmp_path / "out"
    built, checkpoint = topology(tmp_path, sinks.files(out, format="jsonl")), tmp_path / "ck"
    options = {"keep_open": True}
    crashed(LocalRun(built, RunOptions(str(checkpoint), **options)), at_phase(BEGUN, "commit"))  # type: ignore[arg-type]
    _, target = repaired(tmp_path, checkpoint)
    for number in range(BEGUN + 1, 4):
        (tmp_path / "in" / f"{number}.jsonl").unlink()
    run_local(built, RunOptions(str(checkpoint), **options))  # type: ignore[arg-type]
    files = {path.name: path.read_text() for path in out.iterdir() if path.is_file()}
    with pytest.raises(CheckpointError, match="holds 2 files of batches after 1, the last of the checkpoint"):
        run_local(built, RunOptions(str(target), **options))  # type: ignore[arg-type]
    assert {path.name: path.read_text() for path in out.iterdir() if path.is_file()} == files
