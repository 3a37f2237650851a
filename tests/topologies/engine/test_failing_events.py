"""An event on which a plain bolt fails ends the run, or it goes to the errors with its reason, and others go on.

What a user would lose: the event without a word, the rows of others with it, or the run of a night for one bad event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from topologies.run.summary import Summary
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import (
    AggregateBolt,
    BatchBolt,
    Bolt,
    BoltError,
    ConfigError,
    DataError,
    Emit,
    TopologyError,
    WindboltError,
    WindowedBolt,
    aggregates,
)
from windowing.events import Tuple

SCHEMA = "id long, text string, ts timestamp"
NUMBERS = "id long, number long, ts timestamp"
TEXTS = ["1", "two", "3", "4", "five", "", "7"]
BAD = [1, 4, 5]


def rows(texts: list[str]) -> list[dict[str, Any]]:
    return [{"id": at, "text": text, "ts": (at + 1) * 1_000_000} for at, text in enumerate(texts)]


class Parse(Bolt):
    """Texts as numbers."""

    outputs = NUMBERS
    on_error = "errors"

    def execute(self, tuple: Tuple) -> Any:
        """The number, and half a row before it is looked at."""
        yield tuple["id"], 0, tuple["ts"]
        yield tuple["id"], int(tuple["text"]), tuple["ts"]


class ParseAll(BatchBolt):
    """Texts as numbers, a table at a time."""

    outputs = NUMBERS
    on_error = "errors"

    def execute(self, batch: pa.Table) -> Any:
        """The numbers, each after a zero; none where one is no number."""
        numbers = [number for text in batch["text"].to_pylist() for number in (0, int(text))]
        twice = pa.array([at for at in range(len(batch)) for _ in (0, 1)])
        found = batch.take(twice)
        return found.select(["id", "ts"]).append_column("number", pa.array(numbers, pa.int64()))


def play(bolt: Bolt | BatchBolt, batches: list[list[dict[str, Any]]], parallelism: int = 1, **options: Any) -> Any:
    """Its rows, its errors, those of the windows behind it, and the summary."""
    out = {name: sinks.memory() for name in ("rows", "sums", "errors", "of_sums")}
    builder = TopologyBuilder("parse", **options)
    builder.set_spout("s", spouts.memory(SCHEMA, batches))
    builder.set_bolt("parse", bolt, parallelism).shuffle_grouping("s")
    sums = AggregateBolt(n=aggregates.count(), total=aggregates.sum("number"))
    builder.set_bolt("sums", sums.with_tumbling_window("1h").with_timestamp_field("ts")).global_grouping("parse")
    builder.set_sink("rows_out", out["rows"]).from_("parse")
    builder.set_sink("errors_out", out["errors"]).from_("parse", stream="errors")
    builder.set_sink("sums_out", out["sums"]).from_("sums")
    builder.set_sink("of_sums_out", out["of_sums"]).from_("sums", stream="errors")
    summary: Summary = run_local(builder.build(), RunOptions())
    return {name: sink.rows for name, sink in out.items()}, summary


@pytest.mark.parametrize("bolt", [Parse(), ParseAll()], ids=["bolt", "batch bolt"])
@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_it_goes_to_the_errors_and_the_others_go_on(bolt: Bolt | BatchBolt, size: int, parallelism: int) -> None:
    events = rows(TEXTS)
    found, summary = play(bolt, [events[low : low + size] for low in range(0, len(events), size)], parallelism)
    good = [(at, int(text)) for at, text in enumerate(TEXTS) if at not in BAD]
    assert sorted((row["id"], row["number"]) for row in found["rows"]) == sorted([*good, *((at, 0) for at, _ in good)])
    assert [json.loads(row["_data"])["text"] for row in found["errors"]] == [TEXTS[at] for at in BAD]
    assert [row["_row"] for row in found["errors"]] == BAD
    for row in found["errors"]:
        assert (row["_component"], row["_source"]) == ("parse", "s")
        assert row["_reason"].startswith("ValueError: invalid literal for int() with base 10: ")
        assert f"{Path(__file__).name}:" in row["_reason"]
    assert [row["_component"] for row in found["of_sums"]] == ["sums"] * len(BAD)
    (sums,) = found["sums"]
    assert (sums["n"], sums["total"]) == (2 * len(good), sum(number for _, number in good))
    assert summary.last is not None
    accounts = summary.last.bolts["sums"].accounts
    assert (accounts["received"], accounts["windowed"], accounts["invalid"]) == (
        2 * len(good) + len(BAD), 2 * len(good), len(BAD)
    )  # fmt: skip


class Undeclared(Parse):
    """A number that may be none."""

    def execute(self, tuple: Tuple) -> Any:
        """The text itself, where it is no number."""
        return {"id": tuple["id"], "number": int(tuple["text"]) if tuple["text"].isdigit() else tuple["text"],
                "ts": tuple["ts"]}  # fmt: skip


def test_a_row_that_is_not_as_declared_fails_alone() -> None:
    found, _ = play(Undeclared(), [rows(TEXTS)])
    assert [row["_row"] for row in found["errors"]] == BAD
    assert all("column 'number' was declared int64" in row["_reason"] for row in found["errors"])
    assert [row["number"] for row in found["rows"]] == [1, 3, 4, 7]


def stopping(bolt: Bolt | BatchBolt) -> Bolt | BatchBolt:
    bolt.__dict__["on_error"] = "stop"
    return bolt


@pytest.mark.parametrize("bolt", [Parse, ParseAll])
def test_without_the_setting_the_run_ends(bolt: Any) -> None:
    with pytest.raises(BoltError, match=r"bolt 'parse' failed on row.*ValueError: invalid literal"):
        play(stopping(bolt()), [rows(TEXTS)])


class Away(Parse):
    """A service that is asked for each event."""

    def execute(self, tuple: Tuple) -> Any:
        """It is away."""
        raise ConnectionError("no route to the service")


class Full(Away):
    """No memory."""

    def execute(self, tuple: Tuple) -> Any:
        """There is none."""
        raise MemoryError


def test_what_may_pass_or_is_not_about_the_event_ends_the_run() -> None:
    with pytest.raises(BoltError, match="no route to the service") as raised:
        play(Away(), [rows(TEXTS)])
    assert raised.value.transient
    with pytest.raises(BoltError, match="MemoryError"):
        play(Full(), [rows(TEXTS)])


def test_a_topology_that_stops_on_invalid_input_stops() -> None:
    with pytest.raises(DataError, match=r"parse: s: .*invalid literal"):
        play(Parse(), [rows(TEXTS)], on_invalid="stop")


class Split(Bolt):
    """Bad events go to a stream of the user's own."""

    outputs = {"default": NUMBERS, "bad": "id long, text string, why string"}  # noqa: RUF012

    def execute(self, tuple: Tuple) -> Any:
        """A number, or a row of the other stream."""
        try:
            return tuple["id"], int(tuple["text"]), tuple["ts"]
        except ValueError as error:
            return Emit((tuple["id"], tuple["text"], str(error)), stream="bad")


def test_a_bolt_sends_a_bad_event_to_a_stream_of_its_own() -> None:
    out, bad = sinks.memory(), sinks.memory()
    builder = TopologyBuilder("split")
    builder.set_spout("s", spouts.memory(SCHEMA, [rows(TEXTS)]))
    builder.set_bolt("split", Split()).shuffle_grouping("s")
    builder.set_sink("out", out).from_("split")
    builder.set_sink("bad", bad).from_("split", stream="bad")
    run_local(builder.build(), RunOptions())
    assert [row["number"] for row in out.rows] == [1, 3, 4, 7]
    assert [(row["id"], row["text"]) for row in bad.rows] == [(at, TEXTS[at]) for at in BAD]


class OfWindows(WindowedBolt):
    """A windowed bolt."""

    outputs = "n long"
    on_error = "errors"

    def execute(self, window: Any) -> Any:
        """Its size."""
        return (len(window),)


class Misspelt(Parse):
    """Another word."""

    on_error = "error"  # type: ignore[assignment]


def test_a_word_that_means_nothing_and_windowed_bolts_are_refused() -> None:
    with pytest.raises(TopologyError, match="bolt 'parse' has on_error='error'"):
        play(Misspelt(), [rows(TEXTS)])
    builder = TopologyBuilder("windows")
    builder.set_spout("s", spouts.memory(SCHEMA, [rows(TEXTS)]))
    bolt = OfWindows().with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("w", bolt).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("w")
    with pytest.raises(TopologyError, match=r"'w' has on_error='errors'.*windowed"):
        builder.build()


class Lines(BatchBolt):
    """A bolt that fails on a share of many events."""

    outputs = "id long"
    on_error = "errors"

    def execute(self, batch: pa.Table) -> Iterator[Any]:
        """All of them, or none."""
        if pc.any(pc.equal(pc.utf8_length(batch["text"]), 0)).as_py():
            raise ValueError("an event without a text")
        yield batch.select(["id"])


def test_few_bad_events_among_many_are_found() -> None:
    events = rows(["" if at in (17, 4_000) else "x" for at in range(5_000)])
    out, errors = sinks.memory(), sinks.memory()
    builder = TopologyBuilder("lines")
    builder.set_spout("s", spouts.memory(SCHEMA, [events]))
    builder.set_bolt("lines", Lines()).shuffle_grouping("s")
    builder.set_sink("out", out).from_("lines")
    builder.set_sink("errors", errors).from_("lines", stream="errors")
    run_local(builder.build(), RunOptions())
    assert [row["id"] for row in out.rows] == [at for at in range(5_000) if at not in (17, 4_000)]
    assert [row["_row"] for row in errors.rows] == [17, 4_000]


# ------------------------------------------------------------------------------------------------------- extractors


def by_extractor(extractor: Any, **how: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The counts of windows, and the errors."""
    out, errors = sinks.memory(), sinks.memory()
    builder = TopologyBuilder("extracted")
    builder.set_spout("s", spouts.memory(SCHEMA, [rows(TEXTS)]))
    bolt = AggregateBolt(n=aggregates.count(), ids=aggregates.collect("id")).with_tumbling_window("1h")
    builder.set_bolt("n", bolt.with_timestamp_extractor(extractor, **how)).global_grouping("s")
    builder.set_sink("out", out).from_("n")
    builder.set_sink("bad", errors).from_("n", stream="errors")
    run_local(builder.build(), RunOptions())
    return out.rows, errors.rows


def of_one(event: Any) -> int:
    """Milliseconds, of an event."""
    return 1000 * int(event["text"])


def of_all(table: pa.Table) -> pa.Array:
    """Milliseconds, of a table."""
    return pa.array([1000 * int(text) for text in table["text"].to_pylist()])


@pytest.mark.parametrize(
    ("extractor", "how"),
    [(of_one, {}), (of_one, {"on_error": "errors"}), (of_all, {"columns": True, "on_error": "errors"})],
)
def test_an_event_on_which_an_extractor_fails_is_invalid(extractor: Any, how: Any) -> None:
    found, errors = by_extractor(extractor, **how)
    assert found == [{"n": 4, "ids": [0, 2, 3, 6]}]
    assert [row["_row"] for row in errors] == BAD
    assert all("the timestamp extractor failed: ValueError: invalid literal" in row["_reason"] for row in errors)


@pytest.mark.parametrize(
    ("extractor", "how"),
    [(of_one, {"on_error": "stop"}), (of_all, {"columns": True}), (of_all, {"columns": True, "on_error": "stop"})],
)
def test_an_extractor_that_fails_ends_the_run_where_that_is_said(extractor: Any, how: Any) -> None:
    with pytest.raises(BoltError, match=r"bolt 'n' failed.*ValueError: invalid literal"):
        by_extractor(extractor, **how)


def asks_a_service(event: Any) -> int:
    """Milliseconds, from a service that is away for one event."""
    if event["text"] == "five":
        raise ConnectionError("no route to the service")
    return 1000


def asks_for_all(table: pa.Table) -> pa.Array:
    """Milliseconds of a table, from a service that is away."""
    raise ConnectionError("no route to the service")


def lacks_a_name(event: Any) -> int:
    """Milliseconds, by a name that there is not."""
    return int(absent)  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("extractor", "how", "said", "passes"),
    [
        (asks_a_service, {}, "ConnectionError: no route to the service", True),
        (asks_a_service, {"on_error": "errors"}, "ConnectionError: no route to the service", True),
        (asks_for_all, {"columns": True, "on_error": "errors"}, "ConnectionError: no route to the service", True),
        (lacks_a_name, {}, "NameError: name 'absent' is not defined", False),
    ],
)
def test_a_failure_of_an_extractor_that_is_not_about_the_event_ends_the_run(
    extractor: Any, how: Any, said: str, passes: bool
) -> None:
    with pytest.raises(BoltError, match=rf"bolt 'n' failed.*{said} at .*{Path(__file__).name}:\d+") as raised:
        by_extractor(extractor, **how)
    assert raised.value.transient is passes


def test_a_number_that_is_no_time_to_the_system_is_about_the_event() -> None:
    found, errors = by_extractor(lambda event: datetime.fromtimestamp(2**56 if event["id"] == 1 else 5, UTC))
    assert found == [{"n": 6, "ids": [0, 2, 3, 4, 5, 6]}]
    assert [row["_row"] for row in errors] == [1]
    assert "OSError: [Errno 75]" in errors[0]["_reason"]


@pytest.mark.parametrize(
    "returned", [1_704_088_805.25, 1_704_088_805.0, np.float64(1e12), float("nan"), Decimal("1.5"), True]
)
def test_a_number_that_is_no_whole_number_of_milliseconds_is_refused(returned: Any) -> None:
    with pytest.raises(WindboltError, match=r"extractor of bolt 'n' returned .*whole numbers of milliseconds"):
        by_extractor(lambda _: returned)
    with pytest.raises(WindboltError, match=r"extractor of bolt 'n' returned a column of"):
        by_extractor(lambda table: pa.array([returned] * len(table)), columns=True, on_error="errors")


@pytest.mark.parametrize("returned", [1_704_088_805_000, np.int64(1_704_088_805_000), "1704088805000"])
def test_whole_milliseconds_are_times(returned: Any) -> None:
    found, errors = by_extractor(lambda _: returned)
    assert [row["n"] for row in found] == [len(TEXTS)]
    assert not errors


def test_another_word_for_errors_of_extractors_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_error='ignore'"):
        AggregateBolt(n=aggregates.count()).with_timestamp_extractor(of_one, on_error="ignore")  # type: ignore[arg-type]
