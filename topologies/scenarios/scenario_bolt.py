"""The bolt of a scenario without a topology: its settings, by the names in scenario files, and its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

import pyarrow as pa
from pydantic import PlainSerializer, PlainValidator, create_model, field_validator, model_validator

from policies.protocol import Policy
from topologies.scenarios.scenario_values import (
    Anchor,
    AzureLateActionValue,
    AzureSpan,
    AzureTolerance,
    CountValue,
    Delay,
    DurationValue,
    Every,
    ExtentValue,
    Idle,
    Inputs,
    LateActionValue,
    MappingOfFewKeys,
    NamesValue,
    PaneModeValue,
    Positive,
    ShiftValue,
    Strict,
    TextValue,
    TimesOfDay,
    TimeValue,
    TriggerSetting,
    Yes,
    one_of,
)
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.durations import Count, parse_duration
from windowing.errors import ConfigError, ScenarioError
from windowing.schema import TIMESTAMP
from windowing.settings import DECLARED, WindowSettings, presets
from windowing.settings.declaration import (
    ABOVE_ZERO,
    ANCHOR,
    ARRIVAL,
    DURATION,
    EVERY,
    FLAG,
    IMPORTS,
    LISTED,
    NAME,
    PARTITION,
    SHIFT,
    STREAM,
    Declaration,
    ListedKeys,
    Reader,
)
from windowing.settings.kinds import (
    Calendar,
    CalendarUnit,
    CountByStart,
    Hopping,
    Session,
    SlidingLog,
    Snapshot,
    WindowKind,
)
from windowing.settings.panes import PaneMode, Panes
from windowing.settings.presets import Preset
from windowing.settings.rules import START, Arrival, LateAction
from windowing.timestamps import EARLIEST, LATEST, parse_time, to_datetime
from windowing.window import TupleWindow

# The columns of a bare bolt's events, besides ``id``, and the conversion of a scenario's values to them.


Column = Literal["time", "gap", "text", "whole", "number", "flag"]
"""Kind of value in a column: a moment, a duration, a text, a whole number, a number, or true or false."""

ARROW_TYPES = {
    "time": TIMESTAMP,
    "gap": pa.int64(),
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}


def columns_named_by(rules: WindowSettings) -> dict[str, Column]:
    """Returns the columns that a bolt's settings name, with the kind of their values."""
    lifetime, arrival = rules.lifetime, rules.arrival
    named: list[tuple[str | None, Column]] = [
        (rules.timestamp_field, "time"),
        (lifetime.end_field if lifetime else None, "time"),
        (arrival.field if arrival else None, "time"),
        (rules.watermark_field, "time"),
        *((kind.gap_field, "gap") for kind in rules.kinds if isinstance(kind, Session)),
        *((name, "text") for name in rules.key),
        (rules.message_id_field, "text"),
        (lifetime.shape_field if lifetime else None, "text"),
        *((name, "text") for name in (lifetime.edge_key if lifetime else ())),
        (rules.watermark_partition if isinstance(rules.watermark_partition, str) else None, "text"),
    ]
    found: dict[str, Column] = {}
    for name, kind in named:
        if name is not None and name != "id":
            found.setdefault(name, kind)
    return found


def columns_of_events(events: Iterable[Mapping[str, Any]]) -> dict[str, Column]:
    """Returns all columns of events, for policies that may read any of them. Raises ScenarioError for a value without a
    type."""
    found: dict[str, Column] = {}
    for event in events:
        for name, value in event.items():
            if value is None or name == "id":
                continue
            kind = _COLUMN_KINDS.get(type(value))
            if kind is None:
                raise ScenarioError(
                    f"{name}: expected a text, a number, true or false, found {value!r:.60}",
                    why="the policies of the bolt may read all fields of its events",
                )
            kind_so_far = found.setdefault(name, kind)
            if kind_so_far != kind:
                found[name] = "number" if {kind_so_far, kind} == {"whole", "number"} else "text"
    return found


_COLUMN_KINDS: dict[type, Column] = {bool: "flag", int: "whole", float: "number", str: "text"}


def schema_of(rules: WindowSettings, columns: Mapping[str, Column] | None = None) -> pa.Schema:
    """Returns the columns of a bare bolt's events: ``id``, and ``columns``, by default those that its settings name."""
    chosen = columns_named_by(rules) if columns is None else columns
    return pa.schema({"id": pa.string(), **{name: ARROW_TYPES[kind] for name, kind in chosen.items()}}.items())


def json_cell(kind: Column, value: object) -> Any:
    """Converts a value of a column to JSON. Raises ScenarioError if that is impossible. Times outside the calendar
    become None."""
    if value is None:
        return None
    match kind:
        case "time":
            moment = moment_of(value)
            return None if moment is None else to_datetime(moment).isoformat()
        case "gap":
            return _milliseconds(value)
        case "whole" | "number" | "flag":
            return value
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ScenarioError(f"expected a text, found {value!r}")


def moment_of(value: object) -> int | None:
    """Returns a time in microseconds; None outside the years 1 to 9999. Raises ScenarioError for a value that is not a
    time."""
    micros = parse_time(value)
    return micros if EARLIEST <= micros <= LATEST else None


def _milliseconds(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        micros = parse_duration(value).micros
        if micros % 1000 == 0:
            return micros // 1000
    raise ScenarioError(f"expected a duration or milliseconds, found {value!r}", do="write '5s' or 5000")


# The settings of a scenario's bolt that ``WindowSettings`` declares: each has a key in the file.


class ArrivalSetting(MappingOfFewKeys):
    """Limits on the difference between an event's time and its arrival."""

    field: TextValue | None = None
    early: DurationValue | None = None
    late: DurationValue | None = None
    action: LateActionValue | None = None

    @property
    def rule(self) -> Arrival:
        """Returns the rule in the form that bolts take."""
        return Arrival(self.field, self.early, self.late, LateAction.ADJUST if self.action is None else self.action)


class ListedKeysSetting(MappingOfFewKeys):
    """Keys that exist from a given time on."""

    keys: list[Any]
    since: TimeValue

    @property
    def rule(self) -> ListedKeys:
        """Returns the listed keys in the form that bolts take."""
        return ListedKeys(tuple(self.keys), self.since)


_VALUE_TYPES: dict[Reader, Any] = {
    DURATION: DurationValue,
    SHIFT: ShiftValue,
    ABOVE_ZERO: Positive,
    EVERY: Every,
    FLAG: bool,
    NAME: TextValue,
    STREAM: TextValue,
    PARTITION: TextValue,
    ANCHOR: Anchor,
    IMPORTS: Inputs,
    ARRIVAL: ArrivalSetting,
    LISTED: ListedKeysSetting,
}
"""For each reader, the form of its values in a file."""


DECLARED_KEYS: Final = {declared.scenario: declared for declared in DECLARED.values() if declared.scenario is not None}
"""Settings that a file gives as keys of their own, by their keys."""


FORMER_KEYS: Final = {
    "past_the_end": "closes_after_end",
    "watermark_over": "watermark_combine",
    **{name: each.scenario for name, each in DECLARED.items() if each.scenario not in (None, name)},
}
"""Keys of files in earlier versions, and names of settings in Python, each with the present key."""


def value_type(declared: Declaration) -> Any:
    """Returns the pydantic type of a key's value."""
    if declared.reads.choices is not None:
        return _choice(declared.reads.choices)
    return _VALUE_TYPES[declared.reads]


def as_argument(value: Any) -> Any:
    """Returns a key's value as an argument of the bolt's method."""
    return value.rule if isinstance(value, ArrivalSetting) else value


def _choice(choices: type[Enum]) -> Any:
    return Annotated[
        choices, PlainValidator(lambda value: one_of(value, choices)), PlainSerializer(lambda one: one.value)
    ]


# The settings of a scenario's bolt, by the names in scenario files.


class StormRules(MappingOfFewKeys):
    """The arguments of ``presets.storm``."""

    lag: DurationValue | None = None


class AtlasRules(MappingOfFewKeys):
    """The arguments of ``presets.atlas``."""

    allowed_lateness: DurationValue | None = None
    idle_timeout: DurationValue | None = None
    idle_rule: Idle | None = None
    partition_idle_timeout: DurationValue | None = None


class StreamInsightRules(MappingOfFewKeys):
    """The arguments of ``presets.streaminsight``."""

    every: Every | None = None
    delay: Delay | None = None
    policy: LateActionValue | None = None
    to_infinity: bool | None = None
    imports: dict[TextValue, TextValue] | None = None
    field: TextValue | None = None


class AzureRules(MappingOfFewKeys):
    """The arguments of ``presets.azure``."""

    late: AzureTolerance = None
    out_of_order: AzureSpan | None = None
    early: AzureSpan | None = None
    action: AzureLateActionValue | None = None
    arrival_field: TextValue | None = None


class NoRules(MappingOfFewKeys):
    """The arguments of a preset without arguments."""


class PresetSetting(MappingOfFewKeys):
    """A preset of ``windbolt.presets`` by name, with arguments from the file."""

    storm: StormRules | None = None
    atlas: AtlasRules | None = None
    streaminsight: StreamInsightRules | None = None
    increasing_start_time: NoRules | None = None
    strictly_increasing_start_time: NoRules | None = None
    azure: AzureRules | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        named = {value: {}} if isinstance(value, str) else value
        if isinstance(named, dict) and (len(named) != 1 or not set(named) <= set(cls.model_fields)):
            found = "nothing" if not named else ", ".join(map(repr, named))
            raise ScenarioError(f"expected one of {', '.join(cls.model_fields)}, found {found}")
        return named

    @property
    def preset(self) -> Preset:
        """The preset. Raises ConfigError if its arguments conflict."""
        ((name, rules),) = self.given.items()
        make: Callable[..., Preset] = getattr(presets, name)
        return make(**({} if rules is None else rules.given))


class HoppingSetting(MappingOfFewKeys):
    """Windows of one length, starting every ``slide``."""

    length: Positive
    slide: Positive


class SessionSetting(MappingOfFewKeys):
    """Events with less than ``gap`` between them."""

    gap: DurationValue
    touching: bool = False
    max_duration: Positive | None = None
    gap_field: TextValue | None = None

    @model_validator(mode="after")
    def _check(self) -> SessionSetting:
        _ = self.kind  # raises ConfigError for an invalid session
        return self

    @property
    def kind(self) -> Session:
        """Returns the kind of window in the form that bolts take."""
        return Session(self.gap, touching=self.touching, max_duration=self.max_duration, gap_field=self.gap_field)


class CalendarSetting(MappingOfFewKeys):
    """Hours, days, weeks, months, quarters or years of a zone."""

    unit: CalendarUnit
    zone: TextValue
    at: TimesOfDay = ()
    first_day: TextValue = "monday"
    first_month: CountValue = Count(1)
    last: CountValue = Count(1)

    @field_validator("unit", mode="before")
    @classmethod
    def _unit(cls, value: object) -> object:
        if value not in get_args(CalendarUnit):
            raise ScenarioError(f"expected one of {', '.join(get_args(CalendarUnit))}, found {value!r}")
        return value


class KindSetting(MappingOfFewKeys):
    """One of several kinds of window."""

    hopping: HoppingSetting | None = None
    tumbling: Positive | None = None
    session: SessionSetting | None = None
    snapshot: Yes | None = None
    sliding_log: Positive | None = None
    count_by_start: CountValue | None = None
    calendar: CalendarSetting | None = None

    @model_validator(mode="after")
    def _one(self) -> KindSetting:
        if len(self.given) != 1:
            found = ", ".join(self.given) or "nothing"
            raise ScenarioError(f"expected one of {', '.join(type(self).model_fields)}, found {found}")
        return self

    @property
    def kind(self) -> WindowKind:
        """Returns the kind of window in the form that bolts take."""
        ((name, value),) = self.given.items()
        return _MAKERS[name](value)


_MAKERS: dict[str, Callable[[Any], WindowKind]] = {
    "hopping": lambda setting: Hopping(setting.length, setting.slide),
    "tumbling": lambda length: Hopping(length, length),
    "session": lambda setting: setting.kind,
    "snapshot": lambda _: Snapshot(),
    "sliding_log": SlidingLog,
    "count_by_start": CountByStart,
    "calendar": lambda setting: Calendar(
        setting.unit,
        setting.zone,
        at=setting.at,
        first_day=setting.first_day,
        first_month=setting.first_month.value,
        last=setting.last.value,
    ),
}


class PanesSetting(MappingOfFewKeys):
    """Firings besides the one at the end of a window."""

    early: TriggerSetting | None = None
    late: TriggerSetting | None = None
    mode: PaneModeValue | None = None
    closes: bool = False
    at_end: CountValue | None = None

    @field_validator("late", mode="before")
    @classmethod
    def _whenever(cls, value: object) -> object:
        """Accepts true, which means "whenever late events have come"."""
        return (Count(1) if value else None) if isinstance(value, bool) else value

    @property
    def panes(self) -> Panes:
        """Returns the panes in the form that bolts take. Raises ConfigError without an early and a late firing."""
        early = None if self.early is None else self.early.trigger
        late = None if self.late is None else self.late.trigger
        return Panes(early, late, self.mode or PaneMode.ACCUMULATING, closes=self.closes, at_end=self.at_end)


WINDOW_SETTINGS = ("length", *(name for name in _MAKERS if name not in ("hopping", "tumbling")), "windows")
"""Settings that determine the windows; a bolt has exactly one of them."""


class _Settings(Strict):
    """Settings that are not one key each in a file, and checks of settings that depend on each other."""

    FORMER_KEYS: ClassVar = FORMER_KEYS
    """Former keys, for suggestions in errors about unknown keys."""

    preset: PresetSetting | None = None

    length: ExtentValue | None = None
    sliding: ExtentValue | None = None
    tumbling: bool = False
    session: SessionSetting | None = None
    snapshot: Yes | None = None
    sliding_log: Positive | None = None
    count_by_start: CountValue | None = None
    calendar: CalendarSetting | None = None
    windows: list[KindSetting] | None = None
    key: NamesValue | None = None
    substreams: NamesValue | None = None
    panes: PanesSetting | None = None
    eviction: TextValue | None = None
    trigger: TextValue | None = None

    timestamp_field: TextValue | None = None
    processing_time: Yes | None = None
    end_field: TextValue | None = None
    shape_field: TextValue | None = None
    edge_key: NamesValue | None = None

    @property
    def kinds(self) -> tuple[WindowKind, ...]:
        """The kinds of window as bolts declare them; empty if a length defines the windows."""
        if self.windows is not None:
            return tuple(each.kind for each in self.windows)
        named = {name: getattr(self, name) for name in WINDOW_SETTINGS if name in _MAKERS}
        return tuple(_MAKERS[name](value) for name, value in named.items() if value is not None)

    @property
    def single_settings(self) -> dict[str, Any]:
        """The declared settings with a key of their own in the file, by key."""
        return {key: value for key in DECLARED_KEYS if (value := getattr(self, key)) is not None}

    @model_validator(mode="after")
    def _one_kind(self) -> _Settings:
        named = [name for name in WINDOW_SETTINGS if getattr(self, name) is not None]
        if not named and self.eviction is not None and self.trigger is not None:
            return self
        if not named:
            raise ScenarioError(
                "length is missing",
                why=f"windows have a length, or another kind is given: {', '.join(WINDOW_SETTINGS[1:])}",
                do="give one of them",
            )
        if len(named) > 1:
            raise ScenarioError(
                f"expected one of {', '.join(WINDOW_SETTINGS)}, found {' and '.join(named)}",
                do="keep one of them, or list several kinds under windows",
            )
        if self.length is None and (self.tumbling or self.sliding is not None):
            raise ScenarioError(
                f"{named[0]} with {'tumbling' if self.tumbling else 'sliding'}, which belongs to length"
            )
        if self.windows is not None and not self.windows:
            raise ScenarioError("windows: expected some kinds of window, found an empty list")
        return self

    @model_validator(mode="after")
    def _one_slide(self) -> _Settings:
        if self.tumbling and self.sliding is not None and self.sliding != self.length:
            raise ScenarioError(
                f"tumbling, and sliding by {self.sliding}",
                why="a tumbling window slides by its length",
                do="leave out one of the two",
            )
        return self

    @model_validator(mode="after")
    def _check_combinations(self) -> _Settings:
        for name in ("shape_field", "edge_key"):
            if getattr(self, name) is not None and self.end_field is None:
                raise ScenarioError(
                    f"{name} without end_field", why="it applies to events that last", do="give end_field"
                )
        if self.key is not None and self.substreams is not None:
            raise ScenarioError("both key and substreams: substreams is a key already", do="keep one of them")
        timeout = self.single_settings.get("idle_timeout")
        if self.preset is not None:
            try:
                timeout = timeout or self.preset.preset.changes()["idle_timeout"]
            except ConfigError as error:
                raise ScenarioError(f"preset: {error}") from None
        if "idle_rule" in self.single_settings and timeout is None:
            raise ScenarioError("idle_rule without idle_timeout", do="give idle_timeout")
        return self


if TYPE_CHECKING:
    BoltSettings = _Settings
else:  # with a key for each declared setting
    BoltSettings = create_model(
        "BoltSettings",
        __base__=_Settings,
        __doc__="The settings of the bolt that a scenario runs; those that are left out are the bolt's own defaults.",
        **{key: (value_type(setting) | None, None) for key, setting in DECLARED_KEYS.items()},
    )


# The bolt of a scenario without a topology: made from its settings, with the columns that they name.


class BareBolt(WindowedBolt):
    """A windowed bolt that emits nothing, because only its windows matter."""

    outputs: ClassVar[dict[str, str]] = {}

    def execute(self, window: TupleWindow) -> None:
        return None


def bare_bolt(
    settings: BoltSettings,
    imports: Mapping[str, str] | None = None,
    partitions: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    policies: Mapping[str, Policy] | None = None,
    *,
    bolt: WindowedBolt | None = None,
) -> WindowedBolt:
    """Returns the bolt that a scenario describes: first the preset applies, then the windows, then the single rules.

    ``bolt``: gets these settings instead of a bare bolt. ``imports``: the inputs that take the watermarks of another
    input; ``partitions``: the existing partitions; both by the input names of the topology. ``policies``: the policies
    that the settings name; without them, and without another kind of window, the bolt has no windows.
    """
    own_bolt, bolt = bolt, _with_times(_with_windows(_with_preset(bolt or BareBolt(), settings), settings), settings)
    inputs = imports_of(settings)
    if inputs is not None:
        bolt = bolt.with_watermark(imports=imports or inputs)
    for key, value in settings.single_settings.items():
        match key:
            case "imports":
                pass
            case "watermark_partition":
                bolt = bolt.with_watermark(partition=value, partitions=partitions)
            case "anchor":
                bolt = bolt.with_alignment(anchor=START if value == START else to_datetime(value))
            case "listed_keys":
                bolt = _with_listed_keys(bolt, value.rule)
            case _:
                bolt = _with_setting(bolt, DECLARED_KEYS[key], as_argument(value))
    if settings.panes is not None:
        bolt = bolt.with_trigger(settings.panes.panes)
    if policies:
        bolt = bolt.with_policies(eviction=policies.get("eviction"), trigger=policies.get("trigger"))
    return bolt if own_bolt is not None else bolt.with_policies(expired=bolt.settings.follow_each_other)


def _with_listed_keys(bolt: WindowedBolt, listed: ListedKeys) -> WindowedBolt:
    until = bolt.settings.empty_windows_until
    if until is None:
        raise ConfigError(
            "listed_keys without empty_windows_until",
            why="it says how long keys are known without events",
            do="add empty_windows_until",
        )
    return bolt.with_empty_windows(until=until, keys=listed.values, since=to_datetime(listed.since))


def _with_setting(bolt: WindowedBolt, setting: Declaration, value: Any) -> WindowedBolt:
    """Returns the bolt with a setting, made by the setting's method."""
    method: Callable[..., WindowedBolt] = getattr(bolt, setting.method)
    return method(**{setting.argument: value}) if setting.argument else method(value)


def _with_preset(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    return bolt if settings.preset is None else bolt.with_time(settings.preset.preset)


def imports_of(settings: BoltSettings) -> Mapping[str, str] | None:
    """Returns the streams that take the watermarks of another stream, by the scenario's names."""
    if "imports" in settings.single_settings:
        named_imports: Mapping[str, str] = settings.single_settings["imports"]
        return named_imports
    found: Mapping[str, str] | None = None
    if settings.preset is not None:
        found = settings.preset.preset.changes()["watermark_imports"]
    return found


def _with_windows(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.length is not None:
        bolt = bolt.with_window(settings.length, settings.length if settings.tumbling else settings.sliding)
    elif settings.kinds:
        bolt = bolt.with_window(*settings.kinds)
    if settings.substreams is not None:
        return bolt.with_key(*settings.substreams).with_watermark(per_key=True)
    return bolt if settings.key is None else bolt.with_key(*settings.key)


def _with_times(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    if settings.timestamp_field is not None:
        bolt = bolt.with_timestamp_field(settings.timestamp_field)
    if settings.processing_time:
        bolt = bolt.with_time(processing=True)
    if settings.end_field is not None:
        bolt = bolt.with_lifetime(
            settings.end_field, shape_field=settings.shape_field, edge_key=settings.edge_key or ()
        )
    return bolt
