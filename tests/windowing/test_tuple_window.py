"""What a bolt can read from its window."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from manager import WindowManager
from policies import (
    WatermarkCountEvictionPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
)
from windbolt.testing import make_window, run_bolt
from windowing import BoltError, ConfigError, Count, Events, Tuple, TupleWindow, WindowBatch, WindowedBolt, micros
from windowing.timestamps import FOREVER

STREAMS = ("clicks", "orders")
USERS = ["b", "a", None, "b", "a", "c"]
VALUES = [1, 2, 3, 4, None, 6]
TIMES = [1, 3, 5, 7, 9, 12]
CODES = [0, 1, 0, 0, 1, 1]


def windows(kind: Any = None, pieces: int = 1, length: int = 8, slide: int = 4) -> list[TupleWindow]:
    """Windows of 8 us, sliding by 4, of six events on two streams; handed over in so many pieces."""
    manager = WindowManager(
        WatermarkTimeEvictionPolicy(micros(length)), WatermarkTimeTriggerPolicy(micros(slide)), STREAMS, task=3
    )
    users = pa.array(USERS) if kind is None else pa.array(USERS).cast(kind)
    payload = pa.record_batch([users, pa.array(VALUES)], ["user", "value"])
    events = Events(np.array(TIMES), payload, np.array(CODES, np.int8))
    for at in range(0, 6, 6 // pieces):
        manager.add(events.slice(at, at + 6 // pieces))
    return list(manager.advance(FOREVER))


@pytest.fixture(params=[1, 3, 6])
def fired(request: pytest.FixtureRequest) -> list[TupleWindow]:
    return windows(pieces=request.param)


def values(table: pa.Table) -> list[int | None]:
    return table.column("value").to_pylist()


def test_the_table_holds_the_events_in_order(fired: list[TupleWindow]) -> None:
    assert [values(window.table) for window in fired] == [[1, 2], [1, 2, 3, 4], [3, 4, None, 6], [None, 6]]
    assert [len(window) for window in fired] == [2, 4, 4, 2]
    assert fired[0].table is fired[0].table
    assert fired[0].table.column_names == ["user", "value"]


@pytest.mark.feature("ST-21")
def test_new_and_expired_lead_from_one_window_to_the_next(fired: list[TupleWindow]) -> None:
    assert [values(window.new) for window in fired] == [[1, 2], [3, 4], [None, 6], []]
    assert [values(window.expired) for window in fired] == [[], [], [1, 2], [3, 4]]


def test_start_and_end_are_the_bounds(fired: list[TupleWindow]) -> None:
    assert [(window.start_timestamp, window.end_timestamp) for window in fired] == [(-4, 4), (0, 8), (4, 12), (8, 16)]
    assert fired[1].start == datetime(1970, 1, 1, tzinfo=UTC)
    assert fired[1].end == datetime(1970, 1, 1, 0, 0, 0, 8, tzinfo=UTC)
    assert {window.task for window in fired} == {3}
    assert "4 events, 2 new, task 3" in repr(fired[1])


def test_tuples_have_fields_time_and_stream(fired: list[TupleWindow]) -> None:
    window = fired[1]
    first, second = window.get()[:2]
    assert first == Tuple({"user": "b", "value": 1}, 1, "clicks")
    assert second["user"] == "a"
    assert second.stream == "orders"
    assert second.timestamp == 3
    assert second.get("nothing", 7) == 7
    assert list(second) == ["a", 2]
    assert [each["value"] for each in window.get_new()] == [3, 4]
    assert [each["value"] for each in fired[2].get_expired()] == [1, 2]
    assert [each.timestamp for each in fired[2].get_expired()] == [1, 3]
    with pytest.raises(KeyError):
        first["nothing"]


def test_events_can_be_read_by_stream(fired: list[TupleWindow]) -> None:
    assert values(fired[2].stream("clicks")) == [3, 4]
    assert values(fired[2].stream("orders")) == [None, 6]
    with pytest.raises(KeyError, match="reads clicks, orders"):
        fired[2].stream("other")


def test_columns_are_numpy_arrays(fired: list[TupleWindow]) -> None:
    assert fired[1].column("value").tolist() == [1, 2, 3, 4]
    assert fired[1].column("user").tolist() == ["b", "a", None, "b"]
    assert np.isnan(fired[2].column("value")[2])
    assert fired[1].timestamps.tolist() == [1, 3, 5, 7]


def test_pandas(fired: list[TupleWindow]) -> None:
    frame = fired[1].to_pandas()
    assert frame.user.tolist() == ["b", "a", None, "b"]
    assert frame.value.sum() == 10


@pytest.mark.parametrize("kind", [None, pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_groups_come_in_order_of_appearance_null_last(kind: Any, pieces: int) -> None:
    (window,) = windows(kind, pieces, length=20, slide=20)
    found = [(name, *(array.tolist() for array in arrays)) for name, *arrays in window.groups("user", "value", "user")]
    assert found[0] == ("b", [1, 4], ["b", "b"])
    assert found[1][0] == "a"
    assert found[1][1][0] == 2
    assert found[2] == ("c", [6], ["c"])
    assert found[3][:2] == (None, [3])
    assert len(found) == 4


def test_groups_follow_the_events_and_not_a_dictionary_of_another_order() -> None:
    manager = WindowManager(WatermarkCountEvictionPolicy(Count(3)), WatermarkCountTriggerPolicy(Count(3)))
    users = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2]), pa.array(["a", "unused", "b"]))
    manager.add(Events(np.array([1, 2, 3]), pa.record_batch([users, pa.array([1, 2, 3])], ["user", "value"])))
    (window,) = manager.advance(FOREVER)
    assert [(name, array.tolist()) for name, array in window.groups("user", "value")] == [("b", [1, 3]), ("a", [2])]


def test_groups_without_columns_are_the_values() -> None:
    (window,) = windows(length=20, slide=20)
    assert [name for (name,) in window.groups("user")] == ["b", "a", "c", None]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.dictionary(pa.int32(), pa.float64())], ids=str)
def test_numbers_that_are_equal_are_one_group(kind: Any) -> None:
    """As a key of the bolt: -0.0 is what round(-0.4) may be, and 0 / 0 of NumPy's has another NaN than Python."""
    values = np.array([0.0, -0.0, np.nan, -np.nan, 1.0, 0.0])
    degrees = pa.array(values).cast(kind.value_type if pa.types.is_dictionary(kind) else kind).fill_null(0.0)
    if pa.types.is_dictionary(kind):
        degrees = degrees.dictionary_encode()
    manager = WindowManager(WatermarkCountEvictionPolicy(Count(7)), WatermarkCountTriggerPolicy(Count(7)))
    columns = [pa.concat_arrays([degrees, pa.nulls(1, kind)]), pa.array(range(7))]
    manager.add(Events(np.arange(7), pa.record_batch(columns, ["degrees", "at"])))
    (window,) = manager.advance(FOREVER)
    found = [(str(number), array.tolist()) for number, array in window.groups("degrees", "at")]
    assert found == [("0.0", [0, 1, 5]), ("nan", [2, 3]), ("1.0", [4]), ("None", [6])]


def test_a_count_window_has_no_start() -> None:
    manager = WindowManager(WatermarkCountEvictionPolicy(Count(2)), WatermarkCountTriggerPolicy(Count(2)))
    manager.add(Events(np.array([5, 6, 7]), pa.record_batch({"n": [1, 2, 3]})))
    (window,) = manager.advance(7)
    assert (window.start_timestamp, window.start, window.end_timestamp) == (None, None, 6)
    assert window.get()[0].stream == "default"


def test_a_window_that_is_a_run_of_its_source_has_positions(fired: list[TupleWindow]) -> None:
    assert [window.positions for window in fired] == [range(2), range(4), range(2, 6), range(4, 6)]


def test_a_window_that_leaves_events_out_says_why_it_has_no_positions(fired: list[TupleWindow]) -> None:
    scattered = TupleWindow(fired[0].source, np.array([0, 2]), range(0), None, None, 12)
    with pytest.raises(ConfigError, match=r"positions.*use window\.members"):
        _ = scattered.positions
    assert list(scattered.members) == [0, 2]


def test_a_window_stays_readable_while_the_next_ones_fire() -> None:
    manager = WindowManager(WatermarkCountEvictionPolicy(Count(2)), WatermarkCountTriggerPolicy(Count(1)))
    for at in range(50):
        manager.add(Events(np.array([at]), pa.record_batch({"n": [at]})))
    fired = list(manager.advance(49))
    assert [window.table.column("n").to_pylist() for window in fired[:3]] == [[0], [0, 1], [1, 2]]
    assert fired[10].get()[0]["n"] == 9


@pytest.mark.parametrize(
    "look", [lambda window: window.column("amout"), lambda window: list(window.groups("amout", "n"))]
)
def test_a_column_that_is_not_there_is_told_with_those_that_are(look: Any) -> None:
    window = make_window([{"n": 1, "amount": 2.0}])
    with pytest.raises(KeyError, match=r"no column 'amout'; did you mean 'amount'\? \(the window has n, amount\)"):
        look(window)


def test_the_line_of_the_bolt_is_named_where_pyarrow_fails() -> None:
    class Misspelled(WindowedBolt):
        outputs = "n long"

        def execute(self, window: TupleWindow) -> Any:
            return (len(window.table["amout"]),)

    with pytest.raises(BoltError, match=r"test_tuple_window.py:\d+, in execute"):
        run_bolt(Misspelled().with_tumbling_window(1), [{"amount": 1.0}])


def test_select_gives_the_named_columns_and_no_others(fired: list[TupleWindow]) -> None:
    window = fired[1]
    assert window.select("value", "user").equals(window.table.select(["value", "user"]))
    assert window.select_new("value").equals(window.new.select(["value"]))
    assert window.select_expired("user").equals(window.expired.select(["user"]))
    assert window.select("value", stream="orders").equals(window.stream("orders").select(["value"]))
    assert fired[2].select("user").num_rows == 4
    made = make_window([(1, "x"), (2, "y")], "number long, text string", new=[1], expired=[(0, "z")])
    assert made.select("text").to_pylist() == [{"text": "x"}, {"text": "y"}]
    assert (made.select_new("text")["text"].to_pylist(), made.select_expired("text")["text"].to_pylist()) == (
        ["y"],
        ["z"],
    )
    batch = WindowBatch(fired)
    assert batch.select("value").equals(batch.table.select(["value"]))
    assert [len(window) for window in batch[1:]] == [4, 4, 2]


@pytest.mark.parametrize("way", ["select", "select_new", "select_expired", "batch"])
def test_select_names_what_it_cannot_give(fired: list[TupleWindow], way: str) -> None:
    def select(*names: Any) -> Any:
        return (WindowBatch(fired).select if way == "batch" else getattr(fired[1], way))(*names)

    with pytest.raises(KeyError, match=r"no column 'vlaue'; did you mean 'value'\? \(the window has user, value\)"):
        select("user", "vlaue")
    with pytest.raises(ConfigError, match="select\\(\\) without a column"):
        select()
    with pytest.raises(ConfigError, match="the column 'user' twice"):
        select("user", "value", "user")
    for wrong in (0, ["user"], None):
        with pytest.raises(ConfigError, match=r"columns is|that is no columns"):
            select(wrong)


def test_select_of_a_stream_that_is_not_there(fired: list[TupleWindow]) -> None:
    with pytest.raises(KeyError, match="no input stream 'order'"):
        fired[0].select("user", stream="order")
    keyed = make_window([(1,)], "number long", expired=None)
    with pytest.raises(ConfigError, match=r"no window\.expired"):
        keyed.select_expired("number")
