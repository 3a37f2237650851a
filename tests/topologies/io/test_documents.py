"""Documents that people write: their places, and what is wrong with them, in the same words in every language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from topologies.io.documents import Document, explain, load

ALL = (".yaml", ".json", ".jsonl", ".conf")


def loaded(folder: Path, name: str, text: str, *, lists: bool = False) -> list[Document]:
    path = folder / name
    path.write_text(text)
    return list(load(path, ALL, lists=lists))


@pytest.mark.parametrize(
    ("name", "text", "documents"),
    [
        ("a.yaml", "# first\na: 1\n---\n- b\n- c\n", [Document({"a": 1}, 2), Document(["b", "c"], 4)]),
        ("a.json", '[{"a": 1}, 2]', [Document([{"a": 1}, 2])]),
        ("a.jsonl", '{"a": 1}\n\n2', [Document({"a": 1}, 1), Document(2, 3)]),
        ("a.conf", "a { b = 1 }", [Document({"a": {"b": 1}})]),
        ("a.yaml", "# nothing", []),
        ("a.json", " ", []),
        ("a.jsonl", "\n", []),
    ],
)
def test_documents_have_their_places(tmp_path: Path, name: str, text: str, documents: list[Document]) -> None:
    assert loaded(tmp_path, name, text) == documents


@pytest.mark.parametrize(
    ("name", "text", "documents"),
    [
        ("a.yaml", "a: 1\n---\n- b\n- c\n", [Document({"a": 1}, 1), Document("b", 3, 0), Document("c", 4, 1)]),
        ("a.json", "[1, 2]", [Document(1, index=0), Document(2, index=1)]),
        ("a.json", "1", [Document(1)]),
    ],
)
def test_items_of_lists_are_documents_on_demand(
    tmp_path: Path, name: str, text: str, documents: list[Document]
) -> None:
    assert loaded(tmp_path, name, text, lists=True) == documents


@pytest.mark.parametrize(
    ("name", "text", "mistake"),
    [
        (
            "a.yaml",
            "a: 1\na: 2",
            "expected YAML, found a mistake at line 2, column 1: the key 'a' twice",
        ),
        ("a.json", '{"a": 1,\n "a": 2}', "expected JSON, found the key 'a' twice in one mapping, at line 2, column 2"),
        ("a.jsonl", '{"a": 1, "a": 2}', "expected JSON, found the key 'a' twice in one mapping, at column 10"),
        ("a.json", '{"a": NaN}', "expected JSON, found NaN, which is not a number of JSON"),
        ("a.json", "[" * 100_000, "expected JSON, found it nested too deep"),
        ("a.conf", "a: {}}", "expected HOCON, found a mistake: line 1, column 6: expected end of text, met '}'"),
        ("a.yaml", f"a: {'9' * 5_000}", "expected YAML, found a number that cannot be read"),
        ("a.txt", "", "expected a file that ends in one of .yaml, .json, .jsonl, .conf, found .txt"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, name: str, text: str, mistake: str) -> None:
    (document,) = loaded(tmp_path, name, text)
    assert document.mistake.startswith(mistake)


def test_a_mistake_quotes_no_values(tmp_path: Path) -> None:
    (document,) = loaded(tmp_path, "a.yaml", "password: *SECRET")
    assert document.mistake == "expected YAML, found a mistake at line 1, column 11: found undefined alias"


def test_documents_after_one_that_cannot_be_read_still_come(tmp_path: Path) -> None:
    wrong, right = loaded(tmp_path, "a.jsonl", '{"a"}\n2')
    assert "found a mistake at column 5" in wrong.mistake
    assert right == Document(2, 2)


def test_a_file_that_is_not_there_or_no_text_is_a_mistake(tmp_path: Path) -> None:
    (missing,) = load(tmp_path / "no.yaml", ALL)
    assert missing.mistake == "expected a file, found none of this name"
    (tmp_path / "a.json").write_bytes(b"\xff")
    (odd,) = load(tmp_path / "a.json", ALL)
    assert odd.mistake == "expected text in UTF-8, found byte 0xff"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Leaf(Strict):
    type: Literal["leaf"]
    weight: int = Field(description="how heavy it is")


class Branch(Strict):
    leaves: list[Leaf]


class Tree(Branch):
    secrets: dict[str, int] = Field(default_factory=dict, repr=False)
    parts: list[
        Annotated[
            Annotated[Leaf, Tag("<leaf>")] | Annotated[Branch, Tag("<branch>")],
            Discriminator(
                lambda given: "<branch>" if "leaves" in given else "<leaf>",
                custom_error_type="part",
                custom_error_message="expected a part",
            ),
        ]
    ] = Field(default_factory=list)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "leaves: expected, and not there"),
        ({"leaves": 3}, "leaves: expected a list, found 3"),
        ({"leaves": [3]}, "leaves[0]: expected a mapping, found 3"),
        ({"leaves": [{"type": "leaf"}]}, "leaves[0].weight: expected, and not there: how heavy it is"),
        (
            {"leaves": [{"type": "leav", "weight": 1}]},
            "leaves[0].type: expected leaf, found 'leav'; did you mean",
        ),
        ({"leaves": [], "levaes": 1}, "levaes: unknown key; did you mean 'leaves'? (allowed: leaves, secrets, parts)"),
        ({"leaves": [], "secrets": {"a": "x1"}}, "secrets.a: expected a whole number, found a text"),
        (
            {"leaves": [], "parts": [{"type": "leaf", "weight": "1"}]},
            "parts[0].weight: expected a whole number, found '1'",
        ),
        ({"leaves": [], "parts": [{"leaves": [], "secrets": {}}]}, "parts[0].secrets: expected at the top of the file"),
    ],
)
def test_what_does_not_follow_a_model_is_told_with_its_place(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Tree.model_validate(given)
    (told,) = map(str, explain(raised.value, Tree))
    assert told.startswith(problem)
