"""Whether a bolt has the method that it is called with."""

from __future__ import annotations

from typing import NamedTuple

from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt
from windowing.bolts.component import Component
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import ConfigError
from windowing.suggestions import nearest


class _Called(NamedTuple):
    """The method that bolts of a kind are called with."""

    kind: type[Component]
    method: str
    parameter: str
    when: str


_CALLED = (
    _Called(BatchWindowedBolt, "execute_all", "windows", "for the windows that are due"),
    _Called(WindowedBolt, "execute", "window", "for each window that fires"),
    _Called(BatchBolt, "execute", "batch", "with the events as they come"),
    _Called(Bolt, "execute", "tuple", "for each event"),
)
"""The most special kinds first."""


def missing_method(name: str, bolt: Component) -> ConfigError | None:
    """What is wrong with a bolt that does not define the method that it is called with, as where its name is
    misspelled."""
    kind, method, parameter, when = next(called for called in _CALLED if isinstance(bolt, called.kind))
    if any(_defines(bolt, kind, each) for each in {method, "execute"}):
        return None
    own, do = type(bolt).__name__, f"define {method}(self, {parameter})"
    if kind is WindowedBolt and hasattr(bolt, "execute_all"):
        return ConfigError(
            f"bolt {name!r}: {own} has execute_all, and is no BatchWindowedBolt",
            why=f"windbolt calls execute {when}",
            do=f"subclass BatchWindowedBolt, or {do}",
        )
    added = {each for each in dir(type(bolt)) if not each.startswith("_")} - set(dir(kind))
    close = nearest(method, sorted(added))
    what = f"has a method {close[0]!r}; did you mean {method!r}?" if close else f"has no method {method!r}"
    return ConfigError(f"bolt {name!r}: {own} {what}", why=f"windbolt calls {method} {when}", do=do)


def _defines(bolt: Component, kind: type[Component], method: str) -> bool:
    """Whether a bolt has a method of its own in the place of that of its kind."""
    return getattr(type(bolt), method, None) is not getattr(kind, method, None) or method in vars(bolt)
