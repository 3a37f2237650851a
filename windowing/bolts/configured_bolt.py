"""How the settings of a windowed bolt change: each change makes a copy, and notes the method that asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from enum import Enum
from typing import Any, Final, Self

from windowing.bolts.component import Component
from windowing.data.reprs import one_line
from windowing.errors import ConfigError, together
from windowing.settings import ARGUMENTS, DECLARED, SOURCE_ONLY, WindowSettings, presets
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import WindowKind
from windowing.settings.presets import Preset
from windowing.time.durations import Count


class Unset(Enum):
    """What stands for an argument that is not given, where None is a value."""

    UNSET = "not given"

    def __repr__(self) -> str:
        return "..."


UNSET: Final = Unset.UNSET


class ConfiguredBolt(Component):
    """A bolt with settings, which are changed in copies of it; what users call for that is in WindowedBolt."""

    settings: WindowSettings = WindowSettings()

    def __repr__(self) -> str:
        made, settings = self._repr_of_call(), repr(self.settings).removeprefix("WindowSettings")
        return one_line(made if settings == "()" else f"{made} with {settings}")

    def configured(self, settings: WindowSettings) -> Self:
        """The bolt with other settings, all at once: what ``build()`` does when it settles what follows from inputs."""
        configured = copy(self)
        configured.settings = settings
        return configured

    def _give(self, method: str, given: Mapping[str, Any]) -> Self:
        """Set what the user gives by name: arguments of ``method``, each read as its setting is declared."""
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
        """A setting of what a user gives; ConfigError names the call."""
        try:
            return ARGUMENTS[method, argument].read(value)
        except ConfigError as error:
            what = f"{_shown(method, argument, value)}: {error.what}"
            raise ConfigError(what, why=error.why, do=error.do) from None

    def _derived_every(self, before: WindowSettings, *, said: bool) -> Self:
        """How often watermarks come where the user does not say: as a watermark column, or one per key, needs it.

        ``before``: the settings before this call; ``said``: whether the call says how often. What was derived before is
        derived again.
        """
        settings, every = self.settings, self.settings.watermark_every
        if said:
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
            # A preset in the place of another one is not a mistake: it says all that the other said.
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
        """Set what the user asks for by name in a call."""
        kept = [each for each in self.settings.asked if each[0] not in changes]
        forgotten = tuple(each for each in self.settings.forgotten if each != call)  # said again, and after the preset
        return self._with(**changes, asked=(*kept, *((rule, call) for rule in changes)), forgotten=forgotten)

    def _replaced(self, **changes: Any) -> Self:
        """Set these settings and forget every earlier request for them."""
        return self._with(**changes, asked=tuple(each for each in self.settings.asked if each[0] not in changes))

    def _kinds(self, *kinds: WindowKind) -> Self:
        return self._windows("with_window", kinds=kinds, length=None, slide=Count(1))._calendar_bounds()

    def _calendar_bounds(self) -> Self:
        """Calendar windows, where there are no others, hold their start, unless bounds were asked for by name."""
        settings = self.settings
        by_calendar = bool(settings.kinds) and all(kind.usually_holds_start for kind in settings.kinds)
        return self._with(bounds=Bounds.START) if by_calendar and "bounds" not in dict(settings.asked) else self

    def _windows(self, call: str, **windows: Any) -> Self:
        """Set the windows of a bolt, as a user does in ``call``; ConfigError where it has others already."""
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
        return self.configured(replace(self.settings, **changes, given=self.settings.given | changes.keys()))


def named_arguments(**arguments: Any) -> dict[str, Any]:
    """The arguments that a call names."""
    return {name: value for name, value in arguments.items() if value is not UNSET}


def _second_windows(call: str, first: WindowSettings, second: WindowSettings) -> ConfigError:
    """Why a bolt cannot be given windows by ``call`` when it has some: ``second`` are its settings with both."""
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
    """Whether windows can be among several kinds: those of kinds, and those of a length and a slide in time."""
    return bool(settings.kinds) or (not isinstance(settings.length, Count) and not isinstance(settings.slide, Count))


def _shown(method: str, argument: str, value: object) -> str:
    return f"{method}({argument}={value!r:.60})" if argument else f"{method}({value!r:.60})"
