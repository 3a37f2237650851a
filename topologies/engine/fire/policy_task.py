"""One task whose windows policies of a user's own decide about: restored, fired, and saved."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from manager.keyed.held import Held
from manager.outside.transient import is_transient
from manager.own_policies.policy_windows import PolicyWindows
from manager.own_policies.unit import PolicyFailure
from manager.storage.segments.segments import SegmentWriter
from manager.storage.task_state import PolicyState
from policies.protocol import Policy
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.failures.user_code import cause
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.held_events import TaskEvents, TaskKeys, no_events
from topologies.engine.fire.task_windows import Firing, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.work.items import FireItem
from topologies.graph.nodes.windowed import WindowedNode
from windowing.errors import BoltError


class PolicyTask:
    """The events of a task, or of its keys, and what policies decide about them."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        assert isinstance(item.state.windows, PolicyState)
        self._item, self._node, self._context, self._before = item, node, router.context, item.state.windows
        self._events = TaskEvents(router.context.store, item.state, len(node.inputs))
        self._keys = TaskKeys(router.context.store, item.state.windows, node)
        self._evaluated: tuple[Held, PolicyWindows] | None = None
        """The events of this batch, old ones first, and their windows."""

    @property
    def admission_context(self) -> AdmissionContext:
        """Nothing: what is admitted does not depend on what is held."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Take the admitted events of the batch."""
        self._events.new = admitted.events

    def advance(self) -> Iterator[Firing]:
        """Yield the windows that fire, in order. Raises BoltError for an error of a policy."""
        node, old = self._node, self._events.old.needed()
        parts = [part for part in (old, self._events.new) if part is not None]
        parts = [
            part if part.numbers is not None else replace(part, numbers=np.full(len(part), -1, np.int64))
            for part in parts
        ]
        events = self._keys.coded(Held.concat(parts or [no_events(node)]))
        windows = PolicyWindows(
            node.eviction, node.trigger, events, 0 if old is None else len(old), self._keys.records, node.streams,
            key=node.bolt.settings.key, task=self._item.task, event_time=node.event_time,
        )  # fmt: skip
        try:
            found = list(windows.windows(self._item.frontiers.current))
        except PolicyFailure as failure:
            raise self._failed(failure) from failure
        self._evaluated = events, windows
        yield from found

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The events that are still needed, and the records of the task or of its keys."""
        assert self._evaluated is not None
        events, windows = self._evaluated
        flags = windows.flags()
        refs = self._events.write(writer, flags, windows.numbers())
        keys, codes = self._keys.write(writer, events, flags)
        reached = max((each for each in (self._before.last_end, windows.reached) if each is not None), default=None)
        return TaskSnapshot(
            PolicyState(windows.next_due, windows.still_open, keys, codes, reached),
            refs,
            self._events.accounted_by_stream(flags),
            {name: np.array(windows.accounts.by_stream(name)) for name in ("windowed", "unwindowed", "purged")},
        )

    def _failed(self, failure: PolicyFailure) -> BoltError:
        """The error of a policy, with the bolt, the task, the key, the event and the user's line."""
        node, policy, error = self._node, failure.policy, failure.error
        key = f", key {failure.key!r:.80}" if node.bolt.settings.key else ""
        where = f"in {failure.hook} of {policy!r}" if failure.hook != "state" else f"with the state of {policy!r}"
        columns = node.schema.names
        return BoltError(
            f"bolt {node.name!r} failed {where}, task {self._item.task}{key}: {failure.about}, "
            f"in batch {self._context.batch}",
            why=f"{error}{_line(policy, failure.hook)}"
            if isinstance(error, str)
            else f"{cause(error, columns)}{_of_columns(policy, error, columns)}",
            do=f"fix it and rerun: batch {self._context.batch} was not committed, and runs again",
            bolt=node.name,
            task=self._item.task,
            transient=isinstance(error, BaseException) and is_transient(error),
        )


def _of_columns(policy: Policy, error: BaseException, columns: Sequence[str]) -> str:
    """The columns that there are, where a policy has asked for another one."""
    asked = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(asked, str) or asked in columns or asked in policy.state_types:
        return ""
    named = "" if policy.columns_read is None else f"; {type(policy).__name__}.reads names those that it needs"
    return f". The columns of an event here are {', '.join(columns)}{named}"


def _line(policy: Policy, hook: str) -> str:
    """Where a user has written a hook, or the class."""
    code = getattr(getattr(type(policy), hook, None), "__code__", None)
    if code is not None:
        return f" at {code.co_filename}:{code.co_firstlineno}, in {hook}"
    try:
        return f" at {inspect.getsourcefile(type(policy))}:{inspect.getsourcelines(type(policy))[1]}"
    except (OSError, TypeError):
        return ""
