"""A bolt without the method that it is called with is a mistake that ``build()`` tells."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from windbolt import TopologyBuilder, spouts
from windowing import BatchBolt, BatchWindowedBolt, Bolt, TopologyError, WindowedBolt


def mistakes_of(bolt: Any) -> str:
    builder = TopologyBuilder("orders")
    builder.set_spout("orders", spouts.memory("user string, ts timestamp"))
    builder.set_bolt("sums", bolt).global_grouping("orders")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return str(raised.value)


class Misspelled(WindowedBolt):
    def excute(self, window: Any) -> None: ...


class MisspelledForMany(BatchWindowedBolt):
    def execute_al(self, windows: Any) -> None: ...


class MisspelledTuples(Bolt):
    def execut(self, tuple: Any) -> None: ...


class Nothing(BatchBolt):
    def prepare(self, context: Any) -> None: ...


class OfAnotherKind(WindowedBolt):
    def execute_all(self, windows: Any) -> None: ...


@pytest.mark.parametrize(
    ("bolt", "what", "do"),
    [
        (Misspelled, "has a method 'excute'; did you mean 'execute'?", "define execute(self, window)"),
        (MisspelledForMany, "'execute_al'; did you mean 'execute_all'?", "define execute_all(self, windows)"),
        (MisspelledTuples, "has a method 'execut'; did you mean 'execute'?", "define execute(self, tuple)"),
        (Nothing, "Nothing has no method 'execute'", "define execute(self, batch)"),
        (OfAnotherKind, "has execute_all, and is no BatchWindowedBolt", "subclass BatchWindowedBolt"),
    ],
)
def test_a_bolt_without_its_method(bolt: type[Any], what: str, do: str) -> None:
    made = bolt().with_tumbling_window("10s").with_timestamp_field("ts") if issubclass(bolt, WindowedBolt) else bolt()
    told = mistakes_of(made)
    assert what in told
    assert do in told


class OneByOne(BatchWindowedBolt):
    def execute(self, window: Any) -> None: ...


class Inherited(OneByOne):
    outputs: ClassVar[Any] = {}


def test_a_method_may_be_inherited_replaced_or_set_on_the_bolt() -> None:
    given = Misspelled()
    given.execute = lambda window: None  # type: ignore[method-assign]
    for bolt in (OneByOne(), Inherited(), given):
        builder = TopologyBuilder("orders")
        builder.set_spout("orders", spouts.memory("user string, ts timestamp"))
        builder.set_bolt("sums", bolt.with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("orders")
        assert list(builder.build().windowed) == ["sums"]
