"""Bolts without windows that keep state: Storm's BaseStatefulBolt, BaseBasicBolt and tick tuples."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from windowing.bolts.bolt import StatefulTaskBolt
from windowing.calls import checked_value
from windowing.durations import Count, Duration, Time, as_duration
from windowing.errors import ConfigError
from windowing.reprs import one_line
from windowing.settings import WindowSettings

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from windowing.events import Tuple
    from windowing.schema import EmittedRows


class StatefulBolt(StatefulTaskBolt):
    """A bolt without windows that keeps state: ``execute`` is called for each event, as it comes.

    ``state_types`` declares what ``self.state`` holds, as for a StatefulWindowedBolt. It is saved with the batch and
    restored with it: exactly once. There is one state for each task, or with ``with_key("user")`` one for each key:
    ``self.key`` says which, and the bolt has the state of that key while it is called. A key whose state is what it was
    in the beginning (``initial_state``) takes no room, so ``self.state = self.initial_state()`` forgets one.

        class Balances(StatefulBolt):
            outputs = "account string, balance double"
            state_types = {"balance": float}

            def execute(self, tuple):
                self.state["balance"] += tuple["amount"]
                return {"account": self.key, "balance": self.state["balance"]}

        builder.set_bolt("balances", Balances().with_key("account"), parallelism=4).fields_grouping("payments")

    ``with_clock("10s")`` has ``on_clock`` called by the clock, as Storm's tick tuples are.

    Events come in the order in which they arrive at the task, whatever their times, and none is late. What is emitted
    for an event has the time of that event where a windowed bolt before has given it one, and the watermark passes
    through, as it does with a Bolt.
    """

    settings: WindowSettings = WindowSettings(
        length=Count(1), slide=Count(1), processing_time=True, close_fires=False
    )  # a window of each event
    clock_every: Duration | None = None
    """Time between two calls of ``on_clock`` (``with_clock``); None: it is never called."""
    key: Any = None
    """For a bolt with a key: the key whose state this is, while the bolt is called; a tuple for several columns."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event, in order of arrival; what it returns, a row, several or None, is emitted with the time
        of that event."""
        raise NotImplementedError

    def on_clock(self, clock: datetime) -> EmittedRows:
        """Called when the clock has passed a further multiple of ``with_clock``, before the events of the batch with
        that clock: for each task, or with a key for each key that has a state, in the same order on every engine.

        ``clock``: that of the batch, in UTC, the same if the batch is run again. Where several multiples have been
        passed it is called once, and in the first batch of all it is not called. What it returns is emitted.
        """
        raise NotImplementedError

    @checked_value
    def with_clock(self, every: Time) -> Self:
        """Calls ``on_clock`` this often by the clock, also while no event comes: ``with_clock("10s")``.

        The clock is that of the batches: it moves with each, and a batch that is run again has the one that it had.
        """
        interval = as_duration(every)
        if interval.micros <= 0:
            raise ConfigError(f"with_clock({every!r})", do='give a duration above zero, such as "10s"')
        configured = copy(self)
        configured.clock_every = interval
        return configured

    @property
    def hears_clock(self) -> bool:
        """True if it has an ``on_clock`` of its own."""
        return type(self).on_clock is not StatefulBolt.on_clock

    def __repr__(self) -> str:
        key, every = self.settings.key, self.clock_every
        calls = [f".with_key({', '.join(map(repr, key))})"] if key else []
        calls += [f".with_clock('{every}')"] if every is not None else []
        return one_line(self._repr_of_call() + "".join(calls))


class StatefulBatchBolt(StatefulBolt):
    """A StatefulBolt that works on whole Arrow tables.

    With a key each call has the events of one key; without one, those of the task. A call has events of one input
    (``self.stream``), and, where they have times, of one time. Batches may be cut anywhere: the state carries over from
    call to call.

        class Numbered(StatefulBatchBolt):
            outputs = "user string, number long"
            state_types = {"seen": int}

            def execute(self, batch):
                first = self.state["seen"]
                self.state["seen"] += batch.num_rows
                return pa.table({"user": batch["user"], "number": np.arange(first, self.state["seen"])})
    """

    stream: str = ""
    """Name of the input of the events of a call."""

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with events in order of arrival, at least one; what it returns is emitted."""
        raise NotImplementedError
