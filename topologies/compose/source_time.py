"""Rules of time that are declared at the source: defaults for every bolt that reads it (SI-17, SI-18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from topologies.compose.effects import Situation, idle_setting
from topologies.graph.streams import Input, stream_label
from windowing.errors import ConfigError
from windowing.settings.presets import RULES, Preset
from windowing.settings.rules import InputRules

if TYPE_CHECKING:
    from windowing.settings import WindowSettings

_PER_INPUT = ("watermark_every", "lag", "ahead", "late_action", "watermark_field", "close_fires")
"""The rules that may differ between the inputs of a bolt, where all have StreamInsight's."""


def checked_source_time(name: str, time: object) -> Preset | None:
    """The rules that a spout declares. Raises ConfigError for anything else, and for rules that name other inputs."""
    if time is None:
        return None
    if not isinstance(time, Preset):
        raise ConfigError(
            f"set_spout({name!r}, time={time!r:.60})", do="give one of windbolt.presets, such as presets.atlas()"
        )
    if time.rules.get("watermark_imports"):
        raise ConfigError(
            f"spout {name!r} imports watermarks",
            why="an import names another input of a bolt, which a source does not know",
            do="call with_time(presets.streaminsight(imports=...)) on the bolt",
        )
    return time


def distinct(times: Sequence[Preset | None]) -> tuple[Preset | None, ...]:
    """Each preset once, in their order; presets hold mappings, and cannot be in a set."""
    return tuple(time for at, time in enumerate(times) if time not in times[:at])


def with_source_time(
    name: str,
    settings: WindowSettings,
    inputs: Sequence[tuple[Input, pa.Schema]],
    carried: Sequence[bool],
    times: Mapping[str, tuple[Preset | None, ...]],
) -> WindowSettings:
    """The settings of bolt ``name``, with the rules of its sources where it names none itself (SI-18).

    ``carried``: which inputs bring the times and the watermark of a windowed bolt along. ``times``: by component, the
    rules of the spouts that it reads without a window between, None for a spout without any. Raises ConfigError where
    these do not make one whole.
    """
    if set(RULES) <= settings.given:
        return settings
    read = [(each, schema) for (each, schema), brings in zip(inputs, carried, strict=True) if not brings]
    found = {stream_label(each.stream): times.get(each.stream[0], (None,)) for each, _ in read}
    declared = distinct([preset for presets in found.values() for preset in presets])
    if declared in ((), (None,)):
        return settings
    if None in declared:
        without = ", ".join(repr(label) for label, presets in found.items() if None in presets)
        raise ConfigError(
            f"bolt {name!r} reads sources that declare time rules, and {without}, which declares none",
            why="its inputs share one watermark",
            do="declare them there too: set_spout(..., time=...); or for the bolt: with_time(...)",
        )
    rules = [preset for preset in declared if preset is not None]
    if len(rules) == 1:
        return _taken(settings, rules[0])
    columns = {stream_label(each.stream): schema for each, schema in read}
    return _joined(name, settings, columns, found, rules)


class SourceRules:
    """The rules that were asked for at sources, and the bolts that have them from there.

    A rule of a source is a default for all bolts that read it (SI-17): one of them must have use for it.
    """

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], list[ConfigError | None]] = {}
        """Per setting and call: for each bolt that has it from a source, why it changes nothing there."""

    def note(
        self,
        bolt: str,
        situation: Situation,
        settings: WindowSettings,
        inputs: Sequence[Input],
        carried: Sequence[bool],
        times: Mapping[str, tuple[Preset | None, ...]],
    ) -> None:
        """A bolt that reads sources; ``settings``: its own. The others as for ``with_source_time``."""
        for rule, call in _asked_at_sources(settings, inputs, carried, times):
            self._idle.setdefault((rule, call), []).append(idle_setting(bolt, situation, rule, call))

    def without_use(self) -> Iterator[ConfigError]:
        """The rules for which none of the bolts has use."""
        for reasons in self._idle.values():
            if reasons[0] is not None and None not in reasons:
                yield reasons[0]


def _asked_at_sources(
    settings: WindowSettings,
    inputs: Sequence[Input],
    carried: Sequence[bool],
    times: Mapping[str, tuple[Preset | None, ...]],
) -> tuple[tuple[str, str], ...]:
    """The rules of a bolt that were asked for by name at its sources: (setting, argument), as in ``WindowSettings``."""
    read = [each.stream[0] for each, brings in zip(inputs, carried, strict=True) if not brings]
    presets = [preset for component in read for preset in times.get(component, ()) if preset is not None]
    asked = [each for preset in presets for each in preset.asked if each[0] not in settings.given]
    return tuple(dict.fromkeys(asked))


def _joined(
    name: str,
    settings: WindowSettings,
    columns: Mapping[str, pa.Schema],
    found: Mapping[str, tuple[Preset | None, ...]],
    rules: Sequence[Preset],
) -> WindowSettings:
    """Each input by the rules of its source, where these differ in nothing else."""
    shared = [{rule: value for rule, value in each.changes().items() if rule not in _PER_INPUT} for each in rules]
    fields = sorted({each.rules["watermark_field"] for each in rules if each.rules.get("watermark_field")})
    mixed = [label for label, presets in found.items() if len(presets) > 1]
    unfit = [
        label
        for label, presets in found.items()
        for preset in presets
        if preset is not None and not preset.rules.get("watermark_field") and set(fields) & set(columns[label].names)
    ]
    alike = all(each.name == "streaminsight" for each in rules) and all(each == shared[0] for each in shared)
    if not alike or mixed or unfit or len(fields) > 1:
        names = {label: [each.name for each in presets if each is not None] for label, presets in found.items()}
        told = "; ".join(f"{label!r} has those of {' and '.join(given)}" for label, given in names.items())
        raise ConfigError(
            f"the sources of bolt {name!r} declare different time rules: {told}",
            why="between inputs only StreamInsight's generation, delay and policy may differ",
            do="call with_time(...) on the bolt, or declare the same at its sources",
        )
    settings = _taken(settings, rules[0])
    of = {label: _taken(settings, presets[0]) for label, presets in found.items() if presets[0] is not None}
    return replace(
        settings,
        watermark_field=settings.watermark_field if "watermark_field" in settings.given else next(iter(fields), None),
        # What is released at the end of the streams is up to the least of the inputs.
        close_fires=all(each.close_fires for each in of.values()),
        input_rules={
            label: InputRules(each.watermark_every, each.delay, each.late_action) for label, each in of.items()
        },
    )


def _taken(settings: WindowSettings, preset: Preset) -> WindowSettings:
    """The settings with the rules of a preset, except for those that were given by name."""
    rules = {rule: value for rule, value in preset.changes().items() if rule not in settings.given}
    return replace(settings, **rules)
