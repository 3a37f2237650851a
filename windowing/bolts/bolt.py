"""Base classes of bolts, with their outputs, state and settings; and bolts without windows (Storm's BaseBasicBolt,
BaseStatefulBolt and tick tuples)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar

import pyarrow as pa

from windowing.bolts.read_code import rebind_to_copy
from windowing.calls import checked_value
from windowing.columns import own_value
from windowing.conversion import describe_json_change
from windowing.durations import Count, Duration, Time, as_duration
from windowing.errors import USER_EXCEPTIONS, ConfigError, SchemaError, combine_errors
from windowing.reprs import call_repr, fields_repr, one_line, repr_of, simple_attributes
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


@dataclass(frozen=True)
class TaskContext:
    """The argument of ``prepare``: the bolt, number and run of a task, and its counters."""

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

    The totals are in the reports of the run. They are committed with the batch, so each call counts exactly once.
    """

    def __repr__(self) -> str:
        return fields_repr(self)


class Component:
    """Base class of every bolt: declared outputs, and a call before the first event."""

    outputs: ClassVar[str | pa.Schema | Mapping[str, str | pa.Schema]] = {}
    """The columns that the bolt emits, ``"user string, revenue double"``; for several streams, a mapping of their names
    to such columns."""

    def __repr__(self) -> str:
        return one_line(self._repr_of_call())

    def _repr_of_call(self) -> str:
        """Returns the call that made the bolt, as far as its attributes show it."""
        return call_repr(type(self).__name__, **simple_attributes(self))

    def prepare(self, context: TaskContext) -> None:
        """Called on each task in each micro-batch, before any other call.

        Open connections and other objects here that cannot be sent to another process. Attributes of ``self`` are lost
        after the micro-batch, except the ``state`` of a stateful bolt.
        """

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Called once, when the topology is built, with the columns of each input stream; returns the bolt for the run.

        Override it if the columns of the bolt depend on its inputs. ``build()`` reports a ConfigError that it raises.
        """
        return self

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the declared columns of each output stream."""
        if isinstance(self.outputs, Mapping):
            return {stream: parse_schema(schema) for stream, schema in self.outputs.items()}
        return {DEFAULT_STREAM: parse_schema(self.outputs)}


AnyComponent = TypeVar("AnyComponent", bound=Component)


def copy_bolt(bolt: AnyComponent) -> AnyComponent:
    """Returns a deep copy of a bolt. Raises ConfigError if the bolt holds a value that cannot be copied."""
    try:
        copied = deepcopy(bolt)
    except USER_EXCEPTIONS as error:
        raise ConfigError(
            f"{type(bolt).__name__} holds{failing_attribute(bolt, deepcopy)} what cannot be copied",
            why=f"each task has a copy of its bolt. {type(error).__name__}: {error}",
            do="let it hold parameters only: a bolt makes locks and opens files in prepare(), which is called on each "
            "copy, and a policy does so in its hooks",
        ) from error
    return rebind_to_copy(copied, bolt)


def failing_attribute(bolt: Component, attempt: Callable[[Any], object]) -> str:
    """Returns the attribute or setting of a bolt for which ``attempt`` fails, as in `` in self.lock``; "" if it fails
    for no single one."""
    attributes = {f"self.{name}": value for name, value in vars(bolt).items() if name != "settings"}
    settings = vars(bolt).get("settings")
    setting_values = (
        {} if settings is None else {f"its setting {name}": value for name, value in vars(settings).items()}
    )
    for name, value in {**attributes, **setting_values}.items():
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

    ``"stop"``: the run ends with an error that names the bolt and the event. ``"errors"``: the event goes to the bolt's
    stream ``errors`` with the exception as its reason, and nothing is emitted for the event. The windowed bolts that
    this bolt feeds count it as ``invalid``. A BatchBolt is called again with fewer events, to find those on which it
    fails.

    An error that is not about the event ends the run in either case: an error that may pass (a lost connection), a
    system error of files, networks or processes, a lack of memory, and a missing module or name.
    """
    time_shift: int = 0
    """Microseconds by which the bolt moves the times of events, and the watermark with them (SI-25)."""
    refused_stream: str | None = None
    """Output stream for events that the bolt cannot read; they count as ``invalid`` at the windowed bolts that it
    feeds."""


class Bolt(PlainBolt):
    """A bolt that works tuple by tuple: map, filter and flat-map."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event; returns the rows to emit, which get the time of the event, or None."""
        raise NotImplementedError


class BatchBolt(PlainBolt):
    """A bolt that works on whole Arrow tables: map, filter and flat-map, fast.

    Batches may be cut anywhere, so the result for a row must not depend on the other rows.
    """

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with one or more events in order of arrival; returns the rows to emit, or None."""
        raise NotImplementedError


# The state of a stateful bolt: values of declared types, stored as JSON and Arrow, never pickled (ST-27).


StateType: TypeAlias = type | str | pa.Schema
_EMPTY_VALUES: dict[type, Any] = {int: 0, float: 0.0, str: "", bool: False, list: [], dict: {}}


def check_types(types: Mapping[str, StateType]) -> None:
    """Raise ConfigError for ``state_types`` that cannot be stored."""
    if not isinstance(types, Mapping) or not all(isinstance(name, str) for name in types):
        raise ConfigError(
            f"state_types is {repr_of(types):.60}",
            why="it is the type of each state by its name, a text",
            do='write state_types = {"seen": int, "last": "user string, n long"}',
        )
    for name, kind in types.items():
        if isinstance(kind, type):
            if kind not in _EMPTY_VALUES:
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
    """Returns the initial state: zeros, and empty texts, lists, dicts and tables."""
    return {
        name: json.loads(json.dumps(_EMPTY_VALUES[kind]))
        if isinstance(kind, type)
        else parse_schema(kind).empty_table()
        for name, kind in types.items()
    }


def _names(names: Iterable[object]) -> str:
    return f"[{', '.join(sorted(map(repr_of, names)))}]"


def pack_state(
    state: Mapping[str, Any],
    types: Mapping[str, StateType],
    where: str = "self.state",
    paths_by_id: dict[int, str] | None = None,
) -> tuple[str, dict[str, pa.Table]]:
    """Returns the JSON part as text, and the tables, of a state; raises SchemaError if the state is not as declared.

    ``where``: the name of the state in errors. ``paths_by_id``: see ``describe_json_change``.
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
    json_values: dict[str, Any] = {}
    tables: dict[str, pa.Table] = {}
    for name, kind in types.items():
        value = state[name]
        if not isinstance(kind, type):
            if not isinstance(value, pa.Table):
                raise SchemaError(
                    f"state {name!r} is {type(value).__name__} {repr_of(value):.60}, and was declared a table",
                    do="keep a pyarrow table of the declared columns, or change `state_types`",
                )
            tables[name] = conform(value, parse_schema(kind))
            continue
        has_type = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not has_type or (kind is int and isinstance(value, bool)):
            raise SchemaError(
                f"state {name!r} is {type(value).__name__} {repr_of(value):.60}, and was declared {kind.__name__}",
                do="keep the declared type, or change `state_types`",
            )
        json_values[name] = value
    # A declared number is stored as it is, also one of NumPy.
    not_numbers = {name: value for name, value in json_values.items() if not isinstance(value, int | float)}
    if wrong := describe_json_change(not_numbers, where, paths_by_id):
        raise SchemaError(
            "the bolt's state would change when it is saved as JSON",
            why=wrong,
            do="keep lists, dicts with texts as keys, texts and numbers",
        )
    return json.dumps(json_values), tables


# Settings of a bolt. Each change makes a copy of the bolt, and records the method that the user has called.


class Unset(Enum):
    """Marker for an argument that is not given; None is a value of such arguments."""

    UNSET = "not given"

    def __repr__(self) -> str:
        return "..."


UNSET: Final = Unset.UNSET


class ConfiguredBolt(Component):
    """A bolt with settings. A change returns a copy of the bolt; the public methods for changes are in
    WindowedBolt."""

    settings: WindowSettings = WindowSettings()

    def __repr__(self) -> str:
        call, settings = self._repr_of_call(), repr(self.settings).removeprefix("WindowSettings")
        return one_line(call if settings == "()" else f"{call} with {settings}")

    def configured(self, settings: WindowSettings) -> Self:
        """Returns the bolt with these settings in place of its own. ``build()`` calls it with the settings that follow
        from the inputs."""
        configured = rebind_to_copy(copy(self), self)
        configured.settings = settings
        return configured

    def _set_arguments(self, method: str, arguments: Mapping[str, Any]) -> Self:
        """Set settings by the arguments of a ``with_...`` method; their declarations say how values are read."""
        if not arguments:
            raise ConfigError(
                f"{method}() without an argument", why="nothing would change", do="name the settings to change"
            )
        bolt, problems = self, list[ConfigError]()
        for argument, value in arguments.items():
            setting = ARGUMENTS[method, argument]
            try:
                bolt = bolt._set_by_call({setting.name: self._read(method, argument, value)}, setting.call)
            except ConfigError as problem:
                problems.append(problem)
        if problems:
            raise combine_errors(f"{method}()", problems)
        return bolt

    def _read(self, method: str, argument: str, value: Any) -> Any:
        """Returns the setting for the value of an argument; a ConfigError names the call."""
        try:
            return ARGUMENTS[method, argument].read(value)
        except ConfigError as error:
            what = f"{_call_text(method, argument, value)}: {error.what}"
            raise ConfigError(what, why=error.why, do=error.do) from None

    def _derive_watermark_every(self, before: WindowSettings, *, chosen: bool) -> Self:
        """Derive how often watermarks are made from the watermark column or the watermark per key, unless the user
        sets it.

        ``before``: the settings before this call. ``chosen``: True if this call sets the interval.
        """
        settings, every = self.settings, self.settings.watermark_every
        if chosen:
            return self.configured(replace(settings, every_is_derived=False))
        no_other_source = settings.watermark_field is None and not settings.watermark_imports
        if settings.every_is_derived or (
            every == SOURCE_ONLY and before.watermark_field is not None and no_other_source
        ):
            every = None
        if every is not None:
            return self
        if settings.watermark_field is not None:
            return self._with_settings(watermark_every=SOURCE_ONLY, every_is_derived=True)
        if settings.watermark_per_key:
            return self._with_settings(watermark_every=Count(1), every_is_derived=True)
        set_by_user = settings.given - {"watermark_every"} if settings.every_is_derived else settings.given
        return self.configured(replace(settings, watermark_every=None, every_is_derived=False, given=set_by_user))

    def _apply_preset(self, preset: Preset) -> Self:
        if not isinstance(preset, Preset):
            name = getattr(preset, "__name__", "")
            if callable(preset) and hasattr(presets, name):
                raise ConfigError(
                    f"with_time(presets.{name})",
                    why="that is a function, not the preset that it returns",
                    do=f"call it: presets.{name}()",
                )
            raise ConfigError(f"with_time({preset!r:.60})", do="give one of windbolt.presets, such as presets.atlas()")
        replaced_calls = [each for each in self.settings.asked if each[0] in presets.RULES]
        bolt = self._with_settings(
            **preset.changes(),
            every_is_derived=False,
            asked=(*(each for each in self.settings.asked if each not in replaced_calls), *preset.asked),
            # A second preset sets all rules again, so settings of the first are not reported as forgotten.
            forgotten=(
                *self.settings.forgotten,
                *(call for _, call in replaced_calls if not call.startswith("presets.")),
            ),
        )
        return bolt._derive_calendar_bounds()

    def _set_partitions(self, partitions: Iterable[object] | Mapping[str, Iterable[object]] | None) -> Self:
        if partitions is not None and not isinstance(self.settings.watermark_partition, str):
            raise ConfigError(
                "with_watermark(partitions=...) without partition=",
                why="they are values of that column; the source itself knows its own partitions",
                do="name the column, partition=..., or leave partitions= out",
            )
        return self._with_settings(partitions=DECLARED["partitions"].read(partitions))

    def _set_by_call(self, changes: Mapping[str, Any], call: str) -> Self:
        """Set settings that the user names in a call, and record the call."""
        other_calls = [each for each in self.settings.asked if each[0] not in changes]
        forgotten = tuple(each for each in self.settings.forgotten if each != call)  # set again, and after the preset
        return self._with_settings(
            **changes, asked=(*other_calls, *((rule, call) for rule in changes)), forgotten=forgotten
        )

    def _set_and_forget_calls(self, **changes: Any) -> Self:
        """Set settings, and remove the records of earlier calls that set them."""
        other_calls = tuple(each for each in self.settings.asked if each[0] not in changes)
        return self._with_settings(**changes, asked=other_calls)

    def _set_kinds(self, *kinds: WindowKind) -> Self:
        return self._set_windows("with_window", kinds=kinds, length=None, slide=Count(1))._derive_calendar_bounds()

    def _derive_calendar_bounds(self) -> Self:
        """Set bounds that include the start if all windows are calendar windows, unless the user has set bounds."""
        settings = self.settings
        by_calendar = bool(settings.kinds) and all(kind.usually_holds_start for kind in settings.kinds)
        is_derived = by_calendar and "bounds" not in dict(settings.asked)
        return self._with_settings(bounds=Bounds.START) if is_derived else self

    def _set_windows(self, call: str, **windows: Any) -> Self:
        """Set the windows of a bolt. Raises ConfigError, which names ``call``, if the bolt has other windows."""
        settings, configured = self.settings, self._with_settings(**windows)
        if (settings.length is not None or settings.kinds or settings.key_trigger is not None) and any(
            getattr(settings, name) != value for name, value in windows.items()
        ):
            raise _second_windows(call, settings, configured.settings)
        return configured

    def _check_no_time_source(self, call: str) -> None:
        """Raise ConfigError if the bolt has a source of time already."""
        settings = self.settings
        if settings.reads_timestamps or settings.processing_time:
            raise ConfigError(
                f"{call} on a bolt whose time is already configured",
                why="a bolt has one source of time",
                do="keep one of them",
            )

    def _with_settings(self, **changes: Any) -> Self:
        return self.configured(self.settings.changed(**changes, given=self.settings.given | changes.keys()))


def named_arguments(**arguments: Any) -> dict[str, Any]:
    """Returns the arguments that are not UNSET."""
    return {name: value for name, value in arguments.items() if value is not UNSET}


def _second_windows(call: str, before: WindowSettings, after: WindowSettings) -> ConfigError:
    """Returns the error for a ``call`` that sets windows on a bolt that has windows; ``before`` and ``after`` are its
    settings before and after the call."""
    if after.key_trigger is None:
        advice = "keep one of the two"
        if _is_of_kinds(before) and _is_of_kinds(after):
            advice += ", or give both to one with_window(...) if each event belongs to both"
            hopping = not before.kinds or not after.kinds
            advice += "; a length and a slide are Hopping(length, slide)" if hopping else ""
        return ConfigError(
            f"{call} on a bolt that has windows already", why="the first windows would be lost", do=advice
        )
    if before.key_trigger is None:
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
    """True if these windows can be given as kinds: they are, or their length and slide are durations."""
    return bool(settings.kinds) or (not isinstance(settings.length, Count) and not isinstance(settings.slide, Count))


def _call_text(method: str, argument: str, value: object) -> str:
    return f"{method}({argument}={repr_of(value):.60})" if argument else f"{method}({repr_of(value):.60})"


# Bolts with tasks, among which groupings distribute the events.


class TaskBolt(ConfiguredBolt):
    """A bolt with one or more tasks, among which groupings distribute its events; accounts count these events."""

    reads: ClassVar[str | Sequence[str] | None] = None
    """The columns that ``execute`` reads, ``"user, amount"``; None, or ``"*"``: all. A run reads and keeps only these
    columns and those that the settings of the bolt name."""
    parallel_windows: ClassVar[bool] = False
    """True if ``execute`` depends on nothing but its window, so that several windows of a task can be fired at the same
    time, by copies of the bolt in several processes. The order of the emitted rows does not change."""

    @property
    def counts_answers(self) -> bool:
        """True if the counters of the bolt count the answers of a step's rules."""
        return False

    @property
    def rows_are_of_events(self) -> bool:
        """True if the bolt never emits rows for a window without events."""
        return False

    @property
    def takes_retractions(self) -> bool:
        """True if the bolt understands retractions, rows with the column ``_retract`` by which an earlier bolt takes
        rows back. A bolt that does not would count them as events."""
        return True

    @property
    def groups_by(self) -> tuple[str, ...] | None:
        """The columns whose equal values must be on one task. ``()``: all events must be on one task. None: any task
        may have any event."""
        return None

    @property
    def declared_columns(self) -> frozenset[str] | None:
        """The columns of ``reads``; None if these are all columns. Raises ConfigError for an invalid ``reads``."""
        reads = self.reads
        names = reads.split(",") if isinstance(reads, str) else reads
        if names is None or reads == "*":
            return None
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in names):
            raise ConfigError(
                f"{type(self).__name__}.reads = {repr_of(reads):.60}",
                why="it is the names of columns",
                do='write reads = "user, amount"',
            )
        return frozenset(name.strip() for name in names if name.strip())

    def forget(self, key: Any) -> None:
        """Called when a trigger has forgotten a key after empty intervals (UH-22); drop the data of this key here."""

    @checked_value
    def with_key(self, *fields: str | Sequence[str]) -> Self:
        """Form windows for each value of these columns, not for each task; ``window.key`` is the value. A StatefulBolt
        has a state for each value.

        ``with_key("line", "sensor")`` and ``with_key(["line", "sensor"])`` are the same. With several tasks, the inputs
        must be grouped by fields among these columns, so that a key is on one task.
        """
        is_list = len(fields) == 1 and isinstance(fields[0], list | tuple)
        names = tuple(fields[0] if is_list else fields)
        call = f"with_key({', '.join(map(repr, names))})"
        if not names or not all(isinstance(name, str) and name for name in names):
            why, do = "a key is one or more columns, each by its name", "write with_key('line', 'sensor')"
            raise ConfigError(call, why=why, do=do)
        configured = self._with_settings(key=names)
        if self.settings.key not in ((), names):
            raise ConfigError(
                f"{call} on a bolt whose key is {', '.join(self.settings.key)}",
                why="a bolt has one key",
                do="name all columns at once, or use two bolts",
            )
        return configured


class StatefulTaskBolt(TaskBolt):
    """A bolt with a ``state`` in each task that is kept across micro-batches and runs (ST-27)."""

    state_types: ClassVar[Mapping[str, StateType]] = {}
    state_keys: ClassVar[Mapping[str, str | Sequence[str] | Mapping[str, str]]] = {}
    """How each state depends on keys, so that it can be moved when the number of tasks changes.

    For a table: the columns that hold the grouping fields of the bolt's input (``{"user": "name"}`` if the column for
    the field ``user`` is called ``name``). For a dict: the single grouping field, whose values, as texts, are the keys
    of the dict. ``()`` for a state that is the same in all tasks.
    """
    state: dict[str, Any]

    def initial_state(self) -> dict[str, Any]:
        """Returns a value for each name in ``state_types``; zeros and empty values by default.

        Called once per task, before its first window. For a StatefulBolt with a key it is called before the first event
        of each key, and may use ``self.key``; it is called again after a batch, since a state that equals the initial
        state need not be stored.
        """
        return new_state(self.state_types)

    @property
    def needed_until(self) -> int | None:
        """Time in microseconds from which ``state`` equals the initial state again, unless another event comes; None
        if there is no such time."""
        return None

    def move_state(
        self, states: Sequence[dict[str, Any]], task_of: Callable[..., int], tasks: int
    ) -> Sequence[dict[str, Any]]:
        """Called when the number of tasks changes, if ``state_keys`` cannot express how the state is divided; returns
        the state of each of the new ``tasks``.

        ``states``: the states of the tasks that have saved one. ``task_of("ann", 7)`` returns the new task of a key,
        from the values of the grouping fields of the bolt's input. ``prepare`` has not been called.
        """
        raise NotImplementedError


def own_initial_state(bolt: StatefulTaskBolt) -> dict[str, Any]:
    """Returns the initial state of a task or a key: a copy of its own, even if the bolt returns the same lists each
    time."""
    state = bolt.initial_state()
    if type(bolt).initial_state is StatefulTaskBolt.initial_state or not isinstance(state, dict):
        return state  # new each time, or refused when it is kept
    return {name: own_value(value) for name, value in state.items()}


class StatefulBolt(StatefulTaskBolt):
    """A bolt without windows that keeps state: ``execute`` is called for each event, in order of arrival.

    ``state_types`` declares the content of ``self.state``, as for a StatefulWindowedBolt. The state is saved and
    restored with the batch, so each event changes it exactly once. There is one state for each task, or with
    ``with_key("user")`` one for each key: during a call ``self.key`` is the key of the event, and ``self.state`` the
    state of this key. A state that equals ``initial_state()`` is not stored, so ``self.state = self.initial_state()``
    forgets the key.

        class Balances(StatefulBolt):
            outputs = "account string, balance double"
            state_types = {"balance": float}

            def execute(self, tuple):
                self.state["balance"] += tuple["amount"]
                return {"account": self.key, "balance": self.state["balance"]}

        builder.set_bolt("balances", Balances().with_key("account"), parallelism=4).fields_grouping("payments")

    With ``with_clock("10s")`` the clock calls ``on_clock``, like Storm's tick tuples.

    Events come in the order in which they arrive at the task, whatever their times, and no event is late. As with a
    Bolt, emitted rows have the time of the event if it got one in an earlier windowed bolt, and the watermark passes
    through.
    """

    settings: WindowSettings = WindowSettings(
        length=Count(1), slide=Count(1), processing_time=True, close_fires=False
    )  # a window of each event
    clock_every: Duration | None = None
    """Time between two calls of ``on_clock`` (``with_clock``); None: no calls."""
    key: Any = None
    """During a call of a bolt with a key: the key of the event; a tuple for several columns."""

    def execute(self, tuple: Tuple) -> EmittedRows:
        """Called for each event, in order of arrival; returns the rows to emit, which get the time of the event, or
        None."""
        raise NotImplementedError

    def on_clock(self, clock: datetime) -> EmittedRows:
        """Called in the first batch whose clock has passed another multiple of the interval of ``with_clock``, before
        the events of the batch; returns the rows to emit, or None.

        It is called for each task, or with a key for each key that has a state, in the same order on every engine. If
        the clock has passed several multiples, it is called once. It is not called in the very first batch. ``clock``:
        the clock of the batch, in UTC; the same if the batch is run again.
        """
        raise NotImplementedError

    @checked_value
    def with_clock(self, every: Time) -> Self:
        """Call ``on_clock`` at this interval of the clock, even if no event comes: ``with_clock("10s")``.

        The clock is that of the batches: it advances with each batch, and a repeated batch has the same clock.
        """
        interval = as_duration(every)
        if interval.micros <= 0:
            raise ConfigError(f"with_clock({every!r})", do='give a duration above zero, such as "10s"')
        configured = rebind_to_copy(copy(self), self)
        configured.clock_every = interval
        return configured

    @property
    def overrides_on_clock(self) -> bool:
        """True if the class of the bolt defines ``on_clock``."""
        return type(self).on_clock is not StatefulBolt.on_clock

    def __repr__(self) -> str:
        key, every = self.settings.key, self.clock_every
        calls = [f".with_key({', '.join(map(repr, key))})"] if key else []
        calls += [f".with_clock('{every}')"] if every is not None else []
        attributes = {name: value for name, value in simple_attributes(self).items() if name != "clock_every"}
        return one_line(call_repr(type(self).__name__, **attributes) + "".join(calls))


class StatefulBatchBolt(StatefulBolt):
    """A StatefulBolt that works on whole Arrow tables.

    With a key each call has events of one key, without a key events of the task. All events of a call come from one
    input (``self.stream``) and, if events have times, have one time. Batches may be cut anywhere: the state is kept
    from call to call.

        class Numbered(StatefulBatchBolt):
            outputs = "user string, number long"
            state_types = {"seen": int}

            def execute(self, batch):
                first = self.state["seen"]
                self.state["seen"] += batch.num_rows
                return pa.table({"user": batch["user"], "number": np.arange(first, self.state["seen"])})
    """

    stream: str = ""
    """During a call: the name of the input of the events."""

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with one or more events in order of arrival; returns the rows to emit, or None."""
        raise NotImplementedError
