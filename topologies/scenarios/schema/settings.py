"""The settings of the bolt that a scenario runs, by the names that scenario files use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pydantic import create_model, field_validator, model_validator

from topologies.scenarios.schema.declared_settings import DECLARED_KEYS, FORMER_KEYS, typed
from topologies.scenarios.schema.pane_triggers import TriggerSetting
from topologies.scenarios.schema.scenario_values import (
    AzureLateActionValue,
    AzureSpan,
    AzureTolerance,
    CountValue,
    Delay,
    DurationValue,
    Every,
    ExtentValue,
    Idle,
    LateActionValue,
    Listed,
    NamesValue,
    PaneModeValue,
    Positive,
    Strict,
    TextValue,
    TimesOfDay,
    Yes,
)
from windowing.errors import ConfigError, ScenarioError
from windowing.settings import presets
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
from windowing.time.durations import Count


class StormRules(Listed):
    """The arguments of ``presets.storm``."""

    lag: DurationValue | None = None


class AtlasRules(Listed):
    """The arguments of ``presets.atlas``."""

    allowed_lateness: DurationValue | None = None
    idle_timeout: DurationValue | None = None
    idle_rule: Idle | None = None
    partition_idle_timeout: DurationValue | None = None


class StreamInsightRules(Listed):
    """The arguments of ``presets.streaminsight``."""

    every: Every | None = None
    delay: Delay | None = None
    policy: LateActionValue | None = None
    to_infinity: bool | None = None
    imports: dict[TextValue, TextValue] | None = None
    field: TextValue | None = None


class AzureRules(Listed):
    """The arguments of ``presets.azure``."""

    late: AzureTolerance = None
    out_of_order: AzureSpan | None = None
    early: AzureSpan | None = None
    action: AzureLateActionValue | None = None
    arrival_field: TextValue | None = None


class NoRules(Listed):
    """The arguments of a preset that has none."""


class PresetSetting(Listed):
    """One of the presets of ``windbolt.presets`` by its name, with the arguments that the file gives it."""

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
        """The preset; ConfigError where its arguments do not go together."""
        ((name, rules),) = self.given.items()
        make: Callable[..., Preset] = getattr(presets, name)
        return make(**({} if rules is None else rules.given))


class HoppingSetting(Listed):
    """Windows of one length, one every ``slide``."""

    length: Positive
    slide: Positive


class SessionSetting(Listed):
    """Events with less than ``gap`` between them."""

    gap: DurationValue
    touching: bool = False
    max_duration: Positive | None = None
    gap_field: TextValue | None = None

    @model_validator(mode="after")
    def _sound(self) -> SessionSetting:
        _ = self.kind  # ConfigError where it cannot be
        return self

    @property
    def kind(self) -> Session:
        """As bolts declare it."""
        return Session(self.gap, touching=self.touching, max_duration=self.max_duration, gap_field=self.gap_field)


class CalendarSetting(Listed):
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


class KindSetting(Listed):
    """One kind of window of several."""

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
        """As bolts declare it."""
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


class PanesSetting(Listed):
    """Firings beside the one at the end of a window."""

    early: TriggerSetting | None = None
    late: TriggerSetting | None = None
    mode: PaneModeValue | None = None
    closes: bool = False
    at_end: CountValue | None = None

    @field_validator("late", mode="before")
    @classmethod
    def _whenever(cls, value: object) -> object:
        """true: whenever late events have come."""
        return (Count(1) if value else None) if isinstance(value, bool) else value

    @property
    def panes(self) -> Panes:
        """As bolts are given them; ConfigError where there is neither an early nor a late firing."""
        early = None if self.early is None else self.early.trigger
        late = None if self.late is None else self.late.trigger
        return Panes(early, late, self.mode or PaneMode.ACCUMULATING, closes=self.closes, at_end=self.at_end)


KINDS = ("length", *(name for name in _MAKERS if name not in ("hopping", "tumbling")), "windows")
"""The settings that say what the windows are: a bolt has exactly one of them."""


class _Settings(Strict):
    """What a file says of its bolt in another way than by a key for each setting, and what must go together."""

    FORMER_KEYS: ClassVar = FORMER_KEYS
    """For the suggestion in the error about an unknown key."""

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
        """The kinds of window, as bolts declare them; none where a length says what the windows are."""
        if self.windows is not None:
            return tuple(each.kind for each in self.windows)
        named = {name: getattr(self, name) for name in KINDS if name in _MAKERS}
        return tuple(_MAKERS[name](value) for name, value in named.items() if value is not None)

    @property
    def single(self) -> dict[str, Any]:
        """The declared settings that the file gives by themselves, by their keys."""
        return {key: value for key in DECLARED_KEYS if (value := getattr(self, key)) is not None}

    @model_validator(mode="after")
    def _one_kind(self) -> _Settings:
        named = [name for name in KINDS if getattr(self, name) is not None]
        if not named and self.eviction is not None and self.trigger is not None:
            return self
        if not named:
            raise ScenarioError(
                "length is missing",
                why=f"windows have a length, or another kind is given: {', '.join(KINDS[1:])}",
                do="give one of them",
            )
        if len(named) > 1:
            raise ScenarioError(
                f"expected one of {', '.join(KINDS)}, found {' and '.join(named)}",
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
    def _goes_together(self) -> _Settings:
        for name in ("shape_field", "edge_key"):
            if getattr(self, name) is not None and self.end_field is None:
                raise ScenarioError(
                    f"{name} without end_field", why="it applies to events that last", do="give end_field"
                )
        if self.key is not None and self.substreams is not None:
            raise ScenarioError("both key and substreams: substreams is a key already", do="keep one of them")
        timeout = self.single.get("idle_timeout")
        if self.preset is not None:
            try:
                timeout = timeout or self.preset.preset.changes()["idle_timeout"]
            except ConfigError as error:
                raise ScenarioError(f"preset: {error}") from None
        if "idle_rule" in self.single and timeout is None:
            raise ScenarioError("idle_rule without idle_timeout", do="give idle_timeout")
        return self


if TYPE_CHECKING:
    BoltSettings = _Settings
else:  # with a key for each declared setting
    BoltSettings = create_model(
        "BoltSettings",
        __base__=_Settings,
        __doc__="The settings of the bolt that a scenario runs; those that are left out are the bolt's own defaults.",
        **{key: (typed(setting) | None, None) for key, setting in DECLARED_KEYS.items()},
    )
