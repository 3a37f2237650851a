"""Writes docs/settings.md: every setting of a windowed bolt, from its declaration in ``WindowSettings``.

python -m tests.settings_page
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from enum import Enum
from typing import Any

from tests.helpers import pages
from tests.helpers.places import ROOT
from topologies.graph.effects import NEEDS
from windowing import WindowedBolt
from windowing.durations import Duration
from windowing.settings import DECLARED, WindowSettings, presets
from windowing.settings.declaration import ABOVE_ZERO, Declaration
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.rules import Arrival, Lifetime
from windowing.settings.triggers import Capacity, CountTrigger, DailyByRule, DailyTrigger, RuleTrigger

PAGE = ROOT / "docs" / "settings.md"
COMMAND = "python -m tests.settings_page"

HEAD = f"""# Settings of a windowed bolt

For looking up a setting of windows or time: how it is set in Python and in scenario files, which values it takes, and
when it has an effect. Written by `{COMMAND}` from the declarations in
[window_settings.py](../windowing/settings/window_settings.py). What the rules mean is in [semantics.md](semantics.md),
how to use them in [guide.md](guide.md), and which go together in [combinations.md](combinations.md).

*In scenarios*: the key in [scenario files](scenarios.md). *Preset*: a preset sets it; call the preset first, and then
what differs from it. *Needs*: without this the setting has no effect, and `build()` refuses it. *Resumes*: whether a
run can continue on a checkpoint with another value: always if empty, never if "no", else with the exceptions that are
named. A "–" is none."""

ARGUMENTS_HEAD = """## Arguments of values

The arguments of the values that methods take, and of methods that make one value of their arguments."""

PRESETS_HEAD = """## Arguments of presets

Each is a whole system's rules: `bolt.with_time(presets.azure(late="5m"))`, in scenarios `preset: {azure: {late: 5m}}`.
What each sets without arguments is in [semantics.md](semantics.md#what-each-preset-sets)."""

PRESETS: dict[str, dict[str, str]] = {
    "storm": {"lag": "How far the watermark stays behind the latest time (ST-13)."},
    "atlas": {
        "allowed_lateness": "How long after its end a window stays open; without it 3 seconds (AT-14).",
        "idle_timeout": "Without events for this long the clock closes windows (AT-17).",
        "idle_rule": "What the timeout is counted from: `after_window_end`, the later of the window's end and the last "
        "event (AT-17); or `max_remaining`, the last event, but no window closes before its end (AT-19).",
        "partition_idle_timeout": "An input or partition that is silent for this long is left out of the watermark "
        "(AT-20).",
    },
    "streaminsight": {
        "every": "A CTI after so many events, or after so much application time; None: none is generated (SI-5).",
        "delay": 'How far a CTI is behind the event that completes it; below zero, ahead of it: `delay="-1us"` is just '
        "after the event, and releases it at once (SI-6, SI-21).",
        "policy": "What is done with late events: `drop`, `adjust` (they begin later) or `error` (SI-12 to SI-14).",
        "to_infinity": "Whether the end of the streams releases everything (SI-7).",
        "imports": 'By input, the input whose CTIs it takes: `{"lookup": "data"}` (SI-15).',
        "field": "The column in which the source sends CTIs (SI-11).",
    },
    "increasing_start_time": {},
    "strictly_increasing_start_time": {},
    "azure": {
        "late": "How long after its time an event may arrive; None or -1: any time (AZ-8, AZ-10).",
        "out_of_order": "How far the watermark stays behind the latest time (AZ-11).",
        "early": "How far ahead of its arrival the time of an event may be; None: any time (AZ-12).",
        "action": "What is done with late events, by their arrival or behind the watermark: `adjust`, `drop` or "
        "`error` (AZ-9).",
        "arrival_field": "The column with the arrival; without it the clock of the micro-batch. `kafka_timestamp` and "
        "`file_modified` are columns of spouts with `metadata=True` (AZ-1).",
    },
}
"""The presets, and what each argument of theirs is."""

VALUES = {
    "with_window({})": (Hopping, Session, Snapshot, SlidingLog, CountByStart, Calendar),
    "with_trigger({})": (Panes, CountTrigger, RuleTrigger, DailyTrigger, DailyByRule),
    "with_lateness(arrival={})": (Arrival,),
}
"""The classes of values that a call takes, with arguments of their own."""
SPREAD: dict[str, tuple[type, dict[str, str]]] = {
    "with_trigger": (Capacity, {"max_events": "events", "max_bytes": "bytes", "bytes_of": "columns"}),
    "with_lifetime": (Lifetime, {name: name for name in ("end_field", "shape_field", "edge_key")}),
}
"""Methods whose arguments are the fields of one value, with the field of each."""


def page() -> str:
    """The text of docs/settings.md."""
    said = docstrings()
    settings = pages.table(
        ("call", "value", "default", "in scenarios", "preset", "needs", "resumes", "what it is"),
        [_row(declared, said.get(declared.name, "")) for declared in DECLARED.values()],
    )
    needs = pages.table(
        ("needs", "a setting is refused", "because"),
        [(name, need.without, need.why) for name, need in NEEDS.items()],
    )
    arguments = pages.table(("call", "argument", "default", "what it is"), list(argument_rows()))
    of_presets = pages.table(("call", "argument", "default", "what it is"), list(preset_rows()))
    parts = [HEAD, settings, ARGUMENTS_HEAD, arguments, PRESETS_HEAD, of_presets, "## What settings need", needs]
    return "\n\n".join(parts) + "\n"


def preset_rows() -> Iterator[tuple[str, ...]]:
    """A row for each argument of the presets; one that takes none has a row of its own."""
    for name, said in PRESETS.items():
        made = getattr(presets, name)
        parameters = inspect.signature(made).parameters
        for each in parameters.values():
            yield f"`presets.{name}`", f"`{each.name}`", _given(each), said[each.name]
        if not parameters:
            yield f"`presets.{name}`", "–", "–", (inspect.getdoc(made) or "").splitlines()[0]


def argument_rows() -> Iterator[tuple[str, ...]]:
    """A row for each argument of the values that methods take, and of the methods that make one value."""
    for call, classes in VALUES.items():
        for each in classes:
            said, shown = docstrings(each), f"`{call.format(f'{each.__name__}(...)')}`"
            for parameter in inspect.signature(each).parameters.values():
                yield shown, f"`{parameter.name}`", _given(parameter), said[parameter.name]
    for method, (made, fields) in SPREAD.items():
        said, parameters = docstrings(made), inspect.signature(getattr(WindowedBolt, method)).parameters
        for name, field in fields.items():
            yield f"`{method}`", f"`{name}`", _given(parameters[name]), said[field]


def _given(parameter: inspect.Parameter) -> str:
    """The default of an argument, or that it must be given."""
    return "required" if parameter.default is inspect.Parameter.empty else _default(parameter.default)


def _row(declared: Declaration, said: str) -> tuple[str, ...]:
    return (
        f"`{declared.call}`",
        declared.reads.words.replace("|", "or"),
        _default(_unset(declared)),
        f"`{declared.scenario}`" if declared.scenario else "",
        "yes" if declared.preset else "",
        ", ".join(declared.needs),
        _resumes(declared.resumes),
        said,
    )


def _unset(declared: Declaration) -> Any:
    """The default; None where it is a duration of zero that cannot be given, because it means that there is none."""
    return None if declared.reads is ABOVE_ZERO and declared.default == Duration(0) else declared.default


def _resumes(resumes: bool | str) -> str:
    match resumes:
        case True:
            return ""
        case False:
            return "no"
    return resumes


def _default(value: Any) -> str:
    if value is None or value == ():
        return "–"
    return str(value.value if isinstance(value, Enum) else value)


def docstrings(owner: type = WindowSettings) -> dict[str, str]:
    """The docstring of each field of a class, by its name."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(owner)).body if isinstance(node, ast.ClassDef))
    found = {}
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(after.value.value).split()).replace("``", "`").replace("|", "or")
    return found


def main() -> None:
    """Write the page."""
    pages.write(PAGE, page(), f"{len(DECLARED)} settings")


if __name__ == "__main__":
    main()
