"""What operators on several streams have in common: their windows are a matter of their own."""

from __future__ import annotations

from typing import Any, Self

from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError
from windowing.settings import WindowSettings
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import Onset
from windowing.settings.presets import Preset
from windowing.settings.rules import OutputTime

_OWN = (
    "length", "slide", "kinds", "key", "panes", "eviction", "trigger", "processing_time", "bounds", "offset", "anchor",
    "output_time", "watermark_per_key",
)  # fmt: skip
"""The settings that an operator decides, and its users cannot."""


class Operator(WindowedBolt):
    """A bolt that is called at each moment at which an event of its inputs begins, with all events that live then.

    It is called when the watermark, the least of its inputs' marks, is past that moment; what it emits has that
    moment as its time. Where its times come from, its watermark and lateness are set as for any windowed bolt. A
    preset leaves its windows as they are; ConfigError for other settings that would not.
    """

    formed = "one at each moment at which an event begins"
    """Its windows in words."""
    kept: tuple[str, ...] = ("bounds", "output_time")
    """The rules of time that a preset leaves as they are, unless it was asked for them by name."""
    settings: WindowSettings = WindowSettings(kinds=(Onset(),), bounds=Bounds.START, output_time=OutputTime.START)

    def _preset(self, preset: Preset) -> Self:
        if isinstance(preset, Preset):
            asked = {rule for rule, _ in preset.asked}  # what was asked for by name is refused, not replaced
            own = {rule: getattr(self.settings, rule) for rule in self.kept if rule not in asked}
            preset = preset.with_rules(**own)
        return super()._preset(preset)

    def _with(self, **changes: Any) -> Self:
        wrong = [name for name in _OWN if name in changes and changes[name] != getattr(self.settings, name)]
        if wrong:
            raise ConfigError(
                f"{type(self).__name__} with its own {', '.join(wrong)} changed",
                why=f"it forms its windows itself: {self.formed}",
                do="leave the setting out, or put a windowed bolt behind it",
            )
        return super()._with(**changes)
