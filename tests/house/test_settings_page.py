"""docs/settings.md is what the declarations say, and every declaration can be followed to the method that it names."""

from __future__ import annotations

import inspect
from dataclasses import make_dataclass
from typing import Any

import pytest

from tests import settings_page
from windowing import WindowedBolt
from windowing.settings import DECLARED, presets
from windowing.settings.declaration import FLAG, AdmittedBy, DescribedBy, declarations, setting


def test_the_page_is_up_to_date() -> None:
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), f"run: {settings_page.COMMAND}"


def arguments_of(method: str) -> set[str]:
    return set(inspect.signature(getattr(WindowedBolt, method)).parameters) - {"self"}


def test_declarations_name_a_method_and_its_argument() -> None:
    problems = [
        f"{name}: {declared.method}({declared.argument})"
        for name, declared in DECLARED.items()
        if not hasattr(WindowedBolt, declared.method)
        or (declared.argument and declared.argument not in arguments_of(declared.method))
    ]
    assert not problems, "\n".join(problems)


def test_two_settings_cannot_be_given_by_one_call() -> None:
    names = ("panes", "key_trigger")
    both = make_dataclass(
        "Both",
        [
            (
                name,
                Any,
                setting(None, FLAG, "with_trigger.trigger", admitted_by=AdmittedBy.READER, words=DescribedBy("time")),
            )
            for name in names
        ],
    )
    with pytest.raises(ValueError, match=r"panes and key_trigger are both given by with_trigger\(trigger=...\)"):
        declarations(both)


def test_every_argument_of_a_method_is_declared() -> None:
    for method in ("with_watermark", "with_lateness", "with_alignment", "with_policies"):
        declared = {each.argument for each in DECLARED.values() if each.method == method}
        assert arguments_of(method) == declared, method


def test_every_argument_that_makes_a_value_has_a_row() -> None:
    for method in ("with_trigger", "with_lifetime"):
        shown = {argument.strip("`") for call, argument, *_ in settings_page.argument_rows() if call == f"`{method}`"}
        declared = {each.argument for each in DECLARED.values() if each.method == method}
        assert shown | declared - {""} == arguments_of(method), method


def test_every_setting_says_what_it_is() -> None:
    said = settings_page.docstrings()
    assert [name for name in DECLARED if name not in said] == []


def test_the_page_has_each_preset() -> None:
    made = {
        name for name, each in vars(presets).items() if getattr(each, "__annotations__", {}).get("return") == "Preset"
    }
    assert {name for name in made if not name.startswith("_")} == set(settings_page.PRESETS)
