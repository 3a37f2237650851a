"""The settings of a windowed bolt, each declared once, in ``window_settings``."""

from windowing.settings.declaration import SOURCE_ONLY
from windowing.settings.window_settings import ARGUMENTS, DECLARED, OF_INPUT, WindowSettings

__all__ = ["ARGUMENTS", "DECLARED", "OF_INPUT", "SOURCE_ONLY", "WindowSettings"]
