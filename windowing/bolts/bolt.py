"""The base of every bolt: declared outputs, a call before the first event, state, and settings that make copies; and
bolts without windows that keep state: Storm's BaseStatefulBolt, BaseBasicBolt and tick tuples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

import pyarrow as pa

from windowing.bolts.read_code import rebound
from windowing.calls import checked_value
from windowing.columns import own_value
from windowing.conversion import changed_by_json
from windowing.durations import Count, Duration, Time, as_duration
from windowing.errors import USER_EXCEPTIONS, ConfigError, SchemaError, together
from windowing.reprs import call, of_fields, one_line, repr_of, simple_attributes
from windowing.schema import DEFAULT_STREAM, EmittedRows, conform, parse_schema
from windowing.settings import ARGUMENTS, DECLARED, SOURCE_ONLY, WindowSettings, presets
from windowing.settings.kinds import WindowKind
from windowing.settings.presets import Preset
from windowing.settings.rules import Bounds

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from windowing.events import Tuple
    from windowing.schema import EmittedRows

# What every bolt has: declared outputs, and a call before the first event.


@dataclass(frozen=True)
class TaskContext:
    """Facts about a task when it is prepared (its bolt, its number, its run) and its counters."""

    component: str
    """The name of the bolt in the topology."""
    task: int
    """Number of this task among the bolt's tasks, from 0."""
    parallelism: int
    """Number of tasks that the bolt has."""
    run: str = ""
    """Id of this run of the topology; each start has a new one."""
    counters: Counter[str] = field(default_factory=Counter, compare=False)
    """Counters that a windowed bolt keeps for itself: ``context.counters["declined"] += 1``.

    The totals are in the reports of the run. They are committed with the batch: each call counts once, whatever fails.
    """

    def __repr__(self) -> str:
        return of_fields(self)


class Component:
    """Base class of every bolt: declared outputs, and a call before the first event."""

    outputs: ClassVar[str | pa.Schema | Mapping[str, str | pa.Schema]] = {}
    """The columns that the bolt emits, ``"user string, revenue double"``; a mapping for several streams."""

    def __repr__(self) -> str:
        return one_line(self._repr_of_call())

    def _repr_of_call(self) -> str:
        """Returns the call that made the bolt, as far as its attributes show it."""
        return call(type(self).__name__, **simple_attributes(self))

    def prepare(self, context: TaskContext) -> None:
        """Called before the bolt is given anything, on each task, and again in each micro-batch.

        Open here what cannot be sent to another process. What is kept on ``self`` is gone after the micro-batch;
        a StatefulWindowedBolt's ``state`` stays.
        """

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Called once, when the topology is built, with the columns of each input stream: returns the bolt for the run.

        For bolts whose own columns follow from those of the inputs. ``build`` reports a ConfigError among its mistakes.
        """
        return self

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the declared columns of each output stream."""
        if isinstance(self.outputs, Mapping):
            return {stream: parse_schema(schema) for stream, schema in self.outputs.items()}
        return {DEFAULT_STREAM: parse_schema(self.outputs)}


Copied = TypeVar("Copied", bound=Component)


def copied(bolt: Copied) -> Copied:
    """Returns a copy of a bolt, as each of its tasks has one. Raises ConfigError if the bolt holds something that
    cannot be copied."""
    try:
        made = deepcopy(bolt)
    except USER_EXCEPTIONS as error:
        raise ConfigError(
            f"{type(bolt).__name__} holds{holder_of(bolt, deepcopy)} what cannot be copied",
            why=f"each task has a copy of its bolt. {type(error).__name__}: {error}",
            do="let it hold parameters only: a bolt makes locks and opens files in prepare(), which is called on each "
            "copy, and a policy does so in its hooks",
        ) from error
    return rebound(made, bolt)


def holder_of(bolt: Component, attempt: Callable[[Any], object]) -> str:
    """Names the attribute or setting of a bolt on which an attempt fails, as words after "holds": `` in self.lock``.
    Empty if no single one fails."""
    of_bolt = {f"self.{name}": value for name, value in vars(bolt).items() if name != "settings"}
    settings = vars(bolt).get("settings")
    of_settings = {} if settings is None else {f"its setting {name}": value for name, value in vars(settings).items()}
    for name, value in {**of_bolt, **of_settings}.items():
        try:
            attempt(value)
        except USER_EXCEPTIONS:  # the same error has been reported for the whole bolt
            return f" in {name}"
    return ""


# Bolts without windows, which users subclass: they work on tuples, or on batches.


class PlainBolt(Component):
    """A bolt without windows."""

    on_error: Literal["stop", "errors"] = "stop"
    """Rule for an event for which ``execute`` raises an exception, or returns a value that was not declared.

    ``"stop"``: the run ends with an error that says where. ``"errors"``: the event goes to the bolt's stream ``errors``
    with the exception as its reason, nothing is emitted for it, and the windowed bolts that this bolt feeds count it as
    ``invalid``; a BatchBolt is called again with fewer events, to find those on which it fails. An error that is not
    about the event ends the run in either case: one that may pass (a lost connection), a system error of files,
    networks or processes, a lack of memory, and a missing module or name.
    """
    time_shift: int = 0
    """Microseconds by which it moves the time of events that pass through it, and the watermark with it (SI-25)."""
    refused_stream: str | None = None
    """Output stream for events that the bolt cannot read; they count as ``invalid`` at the windowed bolts that it
    feeds."""


class Bolt(PlainBolt):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event; the returned row, rows or None are emitted with the time of that event."""
        raise NotImplementedError


class BatchBolt(PlainBolt):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Batches may be cut anywhere: the bolt must treat each row as if it were alone.
    """

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with events as they come, at least one; the returned rows are emitted."""
        raise NotImplementedError


# The state of a stateful bolt: declared types, JSON and Arrow, never pickle (ST-27).


StateType: TypeAlias = type | str | pa.Schema
_JSON: dict[type, Any] = {int: 0, float: 0.0, str: "", bool: False, list: [], dict: {}}


def check_types(types: Mapping[str, StateType]) -> None:
    """Raise ConfigError for a declaration that cannot be kept."""
    if not isinstance(types, Mapping) or not all(isinstance(name, str) for name in types):
        raise ConfigError(
            f"state_types is {repr_of(types):.60}",
            why="it is the type of each state by its name, a text",
            do='write state_types = {"seen": int, "last": "user string, n long"}',
        )
    for name, kind in types.items():
        if isinstance(kind, type):
            if kind not in _JSON:
                raise ConfigError(
                    f"state {name!r} is declared {kind.__name__}",
                    why="state is kept as JSON or Arrow, never pickled",
                    do="use int, float, str, bool, list, dict, or a schema such as 'user string, n long'",
                )
            continue
        try:
            parse_schema(kind)
        except ConfigError as error:
            raise ConfigError(
                f"state {name!r} is declared {repr_of(kind):.60}, which is not a schema: {error.what}",
                why="a text declares a table of Arrow, by a name and a type for each column",
                do="use int, float, str, bool, list or dict, without quotation marks, or a schema such as "
                "'user string, n long'",
            ) from error


def new_state(types: Mapping[str, StateType]) -> dict[str, Any]:
    """Returns the state before anything has happened: zeros, and empty texts, lists, dicts and tables."""
    return {
        name: json.loads(json.dumps(_JSON[kind])) if isinstance(kind, type) else parse_schema(kind).empty_table()
        for name, kind in types.items()
    }


def _names(names: Iterable[object]) -> str:
    return f"[{', '.join(sorted(map(repr_of, names)))}]"


def pack_state(
    state: Mapping[str, Any],
    types: Mapping[str, StateType],
    where: str = "self.state",
    places: dict[int, str] | None = None,
) -> tuple[str, dict[str, pa.Table]]:
    """Returns the JSON part as text, and the tables, of a state; raises SchemaError if the state is not as declared.

    ``where`` names the state in an error; ``places`` as for ``changed_by_json``, where there are other states.
    """
    if not isinstance(state, Mapping):
        raise SchemaError(
            f"self.state is {type(state).__name__} {repr_of(state):.60}",
            why="it is a dict of the names in `state_types`",
            do="keep what changes under one of these names: self.state[name] = ...",
        )
    if state.keys() != types.keys():
        raise SchemaError(
            f"the bolt's state has {_names(state)}, but {_names(types)} are declared",
            why=f"undeclared: {_names(state.keys() - types.keys())}; missing: {_names(types.keys() - state.keys())}",
            do="declare every name in `state_types`, and keep it in `self.state`",
        )
    plain: dict[str, Any] = {}
    kept: dict[str, pa.Table] = {}
    for name, kind in types.items():
        value = state[name]
        if not isinstance(kind, type):
            if not isinstance(value, pa.Table):
                raise SchemaError(
                    f"state {name!r} is {type(value).__name__} {repr_of(value):.60}, and was declared a table",
                    do="keep a pyarrow table of the declared columns, or change `state_types`",
                )
            kept[name] = conform(value, parse_schema(kind))
            continue
        good = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not good or (kind is int and isinstance(value, bool)):
            raise SchemaError(
                f"state {name!r} is {type(value).__name__} {repr_of(value):.60}, and was declared {kind.__name__}",
                do="keep the declared type, or change `state_types`",
            )
        plain[name] = value
    # A number that is declared as one stands for itself, also NumPy's.
    nested = {name: value for name, value in plain.items() if not isinstance(value, int | float)}
    if wrong := changed_by_json(nested, where, places):
        raise SchemaError(
            "the bolt's state would change when it is saved as JSON",
            why=wrong,
            do="keep lists, dicts with texts as keys, texts and numbers",
        )
    return json.dumps(plain), kept


# How the settings of a windowed bolt change: each change makes a copy, and notes the method that asked for it.


class Unset(Enum):
    """Marker for an argument that is not given, where None is a value."""

    UNSET = "not given"

    def __repr__(self) -> str:
        return "..."


UNSET: Final = Unset.UNSET


class ConfiguredBolt(Component):
    """A bolt with settings, which are changed in copies of it; the methods with which users change them are in
    WindowedBolt."""

    settings: WindowSettings = WindowSettings()

    def __repr__(self) -> str:
        made, settings = self._repr_of_call(), repr(self.settings).removeprefix("WindowSettings")
        return one_line(made if settings == "()" else f"{made} with {settings}")

    def configured(self, settings: WindowSettings) -> Self:
        """Returns the bolt with other settings, all at once, as ``build()`` does when it settles those that follow from
        the inputs."""
        configured = rebound(copy(self), self)
        configured.settings = settings
        return configured

    def _give(self, method: str, given: Mapping[str, Any]) -> Self:
        """Sets the values that the user gives by name: arguments of ``method``, each read as its setting is
        declared."""
        if not given:
            raise ConfigError(
                f"{method}() without an argument", why="nothing would change", do="name the settings to change"
            )
        bolt, problems = self, list[ConfigError]()
        for argument, value in given.items():
            declared = ARGUMENTS[method, argument]
            try:
                bolt = bolt._ask({declared.name: self._read(method, argument, value)}, declared.call)
            except ConfigError as problem:
                problems.append(problem)
        if problems:
            raise together(f"{method}()", problems)
        return bolt

    def _read(self, method: str, argument: str, value: Any) -> Any:
        """Reads the value that a user gives for a setting; a ConfigError names the call."""
        try:
            return ARGUMENTS[method, argument].read(value)
        except ConfigError as error:
            what = f"{_shown(method, argument, value)}: {error.what}"
            raise ConfigError(what, why=error.why, do=error.do) from None

    def _derived_every(self, before: WindowSettings, *, chosen: bool) -> Self:
        """Sets how often watermarks are made if the user does not say it: as a watermark column, or a watermark per
        key, needs it.

        ``before``: the settings before this call; ``chosen``: True if the call says how often. What was derived before
        is derived again.
        """
        settings, every = self.settings, self.settings.watermark_every
        if chosen:
            return self.configured(replace(settings, every_is_derived=False))
        alone = settings.watermark_field is None and not settings.watermark_imports
        if settings.every_is_derived or (every == SOURCE_ONLY and before.watermark_field is not None and alone):
            every = None
        if every is not None:
            return self
        if settings.watermark_field is not None:
            return self._with(watermark_every=SOURCE_ONLY, every_is_derived=True)
        if settings.watermark_per_key:
            return self._with(watermark_every=Count(1), every_is_derived=True)
        given = settings.given - {"watermark_every"} if settings.every_is_derived else settings.given
        return self.configured(replace(settings, watermark_every=None, every_is_derived=False, given=given))

    def _preset(self, preset: Preset) -> Self:
        if not isinstance(preset, Preset):
            name = getattr(preset, "__name__", "")
            if callable(preset) and hasattr(presets, name):
                raise ConfigError(
                    f"with_time(presets.{name})",
                    why="that is a function, not the preset that it returns",
                    do=f"call it: presets.{name}()",
                )
            raise ConfigError(f"with_time({preset!r:.60})", do="give one of windbolt.presets, such as presets.atlas()")
        replaced = [each for each in self.settings.asked if each[0] in presets.RULES]
        bolt = self._with(
            **preset.changes(),
            every_is_derived=False,
            asked=(*(each for each in self.settings.asked if each not in replaced), *preset.asked),
            # To replace a preset by another one is no mistake: it sets everything that the other has set.
            forgotten=(*self.settings.forgotten, *(call for _, call in replaced if not call.startswith("presets."))),
        )
        return bolt._calendar_bounds()

    def _partitions(self, partitions: Iterable[object] | Mapping[str, Iterable[object]] | None) -> Self:
        if partitions is not None and not isinstance(self.settings.watermark_partition, str):
            raise ConfigError(
                "with_watermark(partitions=...) without partition=",
                why="they are values of that column; the source itself knows its own partitions",
                do="name the column, partition=..., or leave partitions= out",
            )
        return self._with(partitions=DECLARED["partitions"].read(partitions))

    def _ask(self, changes: Mapping[str, Any], call: str) -> Self:
        """Sets the values that the user asks for by name in a call."""
        kept = [each for each in self.settings.asked if each[0] not in changes]
        forgotten = tuple(each for each in self.settings.forgotten if each != call)  # set again, and after the preset
        return self._with(**changes, asked=(*kept, *((rule, call) for rule in changes)), forgotten=forgotten)

    def _replaced(self, **changes: Any) -> Self:
        """Set these settings and forget every earlier request for them."""
        return self._with(**changes, asked=tuple(each for each in self.settings.asked if each[0] not in changes))

    def _kinds(self, *kinds: WindowKind) -> Self:
        return self._windows("with_window", kinds=kinds, length=None, slide=Count(1))._calendar_bounds()

    def _calendar_bounds(self) -> Self:
        """Makes calendar windows hold their start, if there are no other windows and no bounds were asked for by
        name."""
        settings = self.settings
        by_calendar = bool(settings.kinds) and all(kind.usually_holds_start for kind in settings.kinds)
        return self._with(bounds=Bounds.START) if by_calendar and "bounds" not in dict(settings.asked) else self

    def _windows(self, call: str, **windows: Any) -> Self:
        """Set the windows of a bolt, as a user does in ``call``; raises ConfigError if it has others already."""
        settings, configured = self.settings, self._with(**windows)
        if (settings.length is not None or settings.kinds or settings.key_trigger is not None) and any(
            getattr(settings, name) != value for name, value in windows.items()
        ):
            raise _second_windows(call, settings, configured.settings)
        return configured

    def _one_time_source(self, call: str) -> None:
        settings = self.settings
        if settings.reads_timestamps or settings.processing_time:
            raise ConfigError(
                f"{call} on a bolt whose time is already configured",
                why="a bolt has one source of time",
                do="keep one of them",
            )

    def _with(self, **changes: Any) -> Self:
        return self.configured(self.settings.changed(**changes, given=self.settings.given | changes.keys()))


def named_arguments(**arguments: Any) -> dict[str, Any]:
    """Returns the arguments that a call names."""
    return {name: value for name, value in arguments.items() if value is not UNSET}


def _second_windows(call: str, first: WindowSettings, second: WindowSettings) -> ConfigError:
    """Returns the error for windows that ``call`` gives to a bolt which has some already; ``second`` are its settings
    with both."""
    if second.key_trigger is None:
        both = "keep one of the two"
        if _is_of_kinds(first) and _is_of_kinds(second):
            both += ", or give both to one with_window(...) if each event belongs to both"
            hopping = not first.kinds or not second.kinds
            both += "; a length and a slide are Hopping(length, slide)" if hopping else ""
        return ConfigError(f"{call} on a bolt that has windows already", why="the first windows would be lost", do=both)
    if first.key_trigger is None:
        what = f"{call} on a bolt that has windows already"
    elif call == "with_trigger":
        return ConfigError(
            "with_trigger on a bolt that has a trigger already",
            why="the first trigger would be lost",
            do="keep one of the two",
        )
    else:
        what = f"{call} on a bolt that has a trigger already"
    return ConfigError(
        what,
        why="a trigger of keys opens windows of its own",
        do="keep one of the two; Panes(...) is the trigger that fires windows of a length or kind early or again",
    )


def _is_of_kinds(settings: WindowSettings) -> bool:
    """True if these windows can be one kind of several: windows by kind, or with length and slide in time."""
    return bool(settings.kinds) or (not isinstance(settings.length, Count) and not isinstance(settings.slide, Count))


def _shown(method: str, argument: str, value: object) -> str:
    return f"{method}({argument}={repr_of(value):.60})" if argument else f"{method}({repr_of(value):.60})"


# Bolts with tasks of their own, to which events are grouped.


class TaskBolt(ConfiguredBolt):
    """A bolt that works in tasks of its own, to which its inputs are grouped, and whose events have accounts."""

    reads: ClassVar[str | Sequence[str] | None] = None
    """The columns that its windows have, ``"user, amount"``, beside those that its rules name; None, or ``"*"``: all. A
    run reads and keeps no other columns."""
    parallel_windows: ClassVar[bool] = False
    """True if ``execute`` looks only at its window, so that several windows of a task can be fired at the same time, by
    copies of the bolt in several processes. The order of the emitted rows does not change."""

    @property
    def counts_answers(self) -> bool:
        """True if its counters count the answers of a step's rules."""
        return False

    @property
    def rows_are_of_events(self) -> bool:
        """True if the bolt emits nothing for a window without events, whatever came before."""
        return False

    @property
    def takes_retractions(self) -> bool:
        """True if it handles ``_retract`` in rows of an earlier bolt that takes rows back; otherwise each such row
        would count as another event."""
        return True

    @property
    def groups_by(self) -> tuple[str, ...] | None:
        """Columns by which events must share a task; ``()``: all events must; None: no such need."""
        return None

    @property
    def declared_columns(self) -> frozenset[str] | None:
        """The columns of ``reads``; None if it is not given, or all. Raises ConfigError if it is something else."""
        given = self.reads
        names = given.split(",") if isinstance(given, str) else given
        if names is None or given == "*":
            return None
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in names):
            raise ConfigError(
                f"{type(self).__name__}.reads = {repr_of(given):.60}",
                why="it is the names of columns",
                do='write reads = "user, amount"',
            )
        return frozenset(name.strip() for name in names if name.strip())

    def forget(self, key: Any) -> None:
        """Called when a trigger has forgotten a key after empty intervals (UH-22): drop the data of the key."""

    @checked_value
    def with_key(self, *fields: str | Sequence[str]) -> Self:
        """Forms windows for each value of these columns, not for each task; ``window.key`` is the value. A StatefulBolt
        has a state for each.

        ``with_key("line", "sensor")`` and ``with_key(["line", "sensor"])`` are the same. With several tasks the inputs
        must be grouped by fields among these, so that a key is on one task.
        """
        listed = len(fields) == 1 and isinstance(fields[0], list | tuple)
        names = tuple(fields[0] if listed else fields)
        call = f"with_key({', '.join(map(repr, names))})"
        if not names or not all(isinstance(name, str) and name for name in names):
            why, do = "a key is one or more columns, each by its name", "write with_key('line', 'sensor')"
            raise ConfigError(call, why=why, do=do)
        configured = self._with(key=names)
        if self.settings.key not in ((), names):
            raise ConfigError(
                f"{call} on a bolt whose key is {', '.join(self.settings.key)}",
                why="a bolt has one key",
                do="name all columns at once, or use two bolts",
            )
        return configured


class StatefulTaskBolt(TaskBolt):
    """A bolt with a ``state`` in each task that outlives the micro-batch and the process (ST-27)."""

    state_types: ClassVar[Mapping[str, StateType]] = {}
    state_keys: ClassVar[Mapping[str, str | Sequence[str] | Mapping[str, str]]] = {}
    """The states that are kept by key, so that they can be moved when the bolt is given more or fewer tasks.

    For a table: the columns that hold the grouping fields of the bolt's input (``{"user": "name"}`` if the column for
    ``user`` is called ``name``). For a dict: the only grouping field, whose values are its keys, as texts. ``()`` for a
    state that is the same in all tasks.
    """
    state: dict[str, Any]

    def initial_state(self) -> dict[str, Any]:
        """Returns values for the declared names; zeros and empty values by default.

        Called once per task, before its first window. For a StatefulBolt with a key it is called for each key, before
        the key's first event, and may ask for ``self.key``; and after a batch again, to tell whether the state differs
        from it.
        """
        return new_state(self.state_types)

    @property
    def needed_until(self) -> int | None:
        """Time in microseconds from which ``state`` is again as in the beginning, unless another event comes; None if
        it is kept."""
        return None

    def move_state(
        self, states: Sequence[dict[str, Any]], task_of: Callable[..., int], tasks: int
    ) -> Sequence[dict[str, Any]]:
        """Called when the bolt is given more or fewer tasks and ``state_keys`` is not enough; on the bolt as it was
        declared, without ``prepare``.

        ``states``: of the tasks that have saved one. ``task_of("ann", 7)`` is the new task of a key, by the values of
        the grouping fields of the bolt's input. Returns the states of all new tasks: ``tasks`` of them.
        """
        raise NotImplementedError


def first_state(bolt: StatefulTaskBolt) -> dict[str, Any]:
    """Returns the first state of a task or a key: its own copy, even if the bolt returns the same lists again."""
    first = bolt.initial_state()
    if type(bolt).initial_state is StatefulTaskBolt.initial_state or not isinstance(first, dict):
        return first  # new each time, or refused when it is kept
    return {name: own_value(value) for name, value in first.items()}


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
    for an event has the time of that event if a windowed bolt before has given it one, and the watermark passes
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
        """Called for each event, in order of arrival; the returned row, rows or None are emitted with the time of that
        event."""
        raise NotImplementedError

    def on_clock(self, clock: datetime) -> EmittedRows:
        """Called when the clock has passed a further multiple of ``with_clock``, before the events of the batch with
        that clock: for each task, or with a key for each key that has a state, in the same order on every engine.

        ``clock``: of the batch, in UTC, the same if the batch is run again. If several multiples have been passed, it
        is called once; in the very first batch it is not called. The returned rows are emitted.
        """
        raise NotImplementedError

    @checked_value
    def with_clock(self, every: Time) -> Self:
        """Calls ``on_clock`` this often by the clock, even if no event comes: ``with_clock("10s")``.

        The clock is that of the batches: it moves with each batch, and a repeated batch has the same clock.
        """
        interval = as_duration(every)
        if interval.micros <= 0:
            raise ConfigError(f"with_clock({every!r})", do='give a duration above zero, such as "10s"')
        configured = rebound(copy(self), self)
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
        own = {name: value for name, value in simple_attributes(self).items() if name != "clock_every"}
        return one_line(call(type(self).__name__, **own) + "".join(calls))


class StatefulBatchBolt(StatefulBolt):
    """A StatefulBolt that works on whole Arrow tables.

    With a key each call has the events of one key; without one, those of the task. A call has events of one input
    (``self.stream``), and, if they have times, of one time. Batches may be cut anywhere: the state carries over from
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
        """Called with events in order of arrival, at least one; the returned rows are emitted."""
        raise NotImplementedError
