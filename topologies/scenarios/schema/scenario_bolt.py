"""The bolt of a scenario that names no topology: made from its settings, fed by columns that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from policies.protocol import Policy
from topologies.scenarios.schema.declared_settings import DECLARED_KEYS, as_given
from topologies.scenarios.schema.settings import BoltSettings
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError
from windowing.settings.declaration import Declaration
from windowing.settings.listed_keys import ListedKeys
from windowing.settings.rules import START
from windowing.time.timestamps import to_datetime
from windowing.window import TupleWindow


class BareBolt(WindowedBolt):
    """A windowed bolt that emits nothing: its windows are what is of interest."""

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
    """The bolt that a scenario describes: the preset first, then its windows, then the single rules.

    ``bolt`` gets these settings in the place of one that emits nothing.

    ``imports`` are the inputs that take the watermarks of another, ``partitions`` the partitions that exist, both by
    the names that inputs have in the topology, ``policies`` those that the settings name: without them, and without
    another kind of window, the bolt has no windows.
    """
    given, bolt = bolt, _with_times(_with_windows(_with_preset(bolt or BareBolt(), settings), settings), settings)
    inputs = imports_of(settings)
    if inputs is not None:
        bolt = bolt.with_watermark(imports=imports or inputs)
    for key, value in settings.single.items():
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
                bolt = _given(bolt, DECLARED_KEYS[key], as_given(value))
    if settings.panes is not None:
        bolt = bolt.with_trigger(settings.panes.panes)
    if policies:
        bolt = bolt.with_policies(eviction=policies.get("eviction"), trigger=policies.get("trigger"))
    return bolt if given is not None else bolt.with_policies(expired=bolt.settings.follow_each_other)


def _with_listed_keys(bolt: WindowedBolt, listed: ListedKeys) -> WindowedBolt:
    until = bolt.settings.empty_windows_until
    if until is None:
        raise ConfigError(
            "listed_keys without empty_windows_until",
            why="it says how long keys are known without events",
            do="add empty_windows_until",
        )
    return bolt.with_empty_windows(until=until, keys=listed.values, since=to_datetime(listed.since))


def _given(bolt: WindowedBolt, setting: Declaration, value: Any) -> WindowedBolt:
    """A setting by the method that sets it."""
    method: Callable[..., WindowedBolt] = getattr(bolt, setting.method)
    return method(**{setting.argument: value}) if setting.argument else method(value)


def _with_preset(bolt: WindowedBolt, settings: BoltSettings) -> WindowedBolt:
    return bolt if settings.preset is None else bolt.with_time(settings.preset.preset)


def imports_of(settings: BoltSettings) -> Mapping[str, str] | None:
    """Which streams take the watermarks of another, by the names that they have in the scenario."""
    if "imports" in settings.single:
        own: Mapping[str, str] = settings.single["imports"]
        return own
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
