"""docs/settings.md is what the declarations say, and every declaration can be followed to the method that it names."""

from __future__ import annotations

import inspect
from dataclasses import make_dataclass
from typing import Any

import pytest

from tests import settings_page
from windowing import WindowedBolt
from windowing.settings import DECLARED
from windowing.settings.declaration import Admits, Declaration, SaidBy, declarations, setting
from windowing.settings.readers import FLAG

MOST_METHODS = 18


def test_the_page_is_up_to_date() -> None:
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), f"run: {settings_page.COMMAND}"


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_a_declaration_names_a_method_and_its_argument(declared: Declaration) -> None:
    arguments = inspect.signature(getattr(WindowedBolt, declared.method)).parameters
    assert not declared.argument or declared.argument in arguments


def test_two_settings_cannot_be_given_by_one_call() -> None:
    names = ("panes", "key_trigger")
    both = make_dataclass(
        "Both",
        [
            (name, Any, setting(None, FLAG, "with_trigger.trigger", admits=Admits.READER, words=SaidBy("time")))
            for name in names
        ],
    )
    with pytest.raises(ValueError, match=r"panes and key_trigger are both given by with_trigger\(trigger=...\)"):
        declarations(both)


@pytest.mark.parametrize("method", ["with_watermark", "with_lateness", "with_alignment", "with_policies"])
def test_every_argument_of_a_method_is_declared(method: str) -> None:
    arguments = set(inspect.signature(getattr(WindowedBolt, method)).parameters) - {"self"}
    assert arguments == {declared.argument for declared in DECLARED.values() if declared.method == method}


@pytest.mark.parametrize("method", ["with_trigger", "with_lifetime"])
def test_every_argument_that_makes_a_value_has_a_row(method: str) -> None:
    shown = {argument.strip("`") for call, argument, *_ in settings_page.argument_rows() if call == f"`{method}`"}
    declared = {declared.argument for declared in DECLARED.values() if declared.method == method}
    assert shown | declared - {""} == set(inspect.signature(getattr(WindowedBolt, method)).parameters) - {"self"}


def test_a_bolt_is_configured_by_few_methods() -> None:
    methods = [name for name in dir(WindowedBolt) if name.startswith("with_")]
    assert len(methods) <= MOST_METHODS, methods


def test_every_setting_says_what_it_is() -> None:
    said = settings_page.docstrings()
    assert [name for name in DECLARED if name not in said] == []
