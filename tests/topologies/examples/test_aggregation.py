"""The ready aggregation step, and every example of its guide, run as they stand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner, Result

from tests.helpers.places import CORPUS, ROOT, SCENARIOS
from topologies.cli.app import app
from topologies.step import Aggregation, Event, FireResult, NamedRule, Out, TriggerCall, load_rule
from topologies.step.compile_step import messages_of, missing_sections, step_problems
from topologies.step.config import AvroSection
from topologies.step.config_files import StepConfig, load_step
from topologies.step.rule_values import header_raw

EXAMPLE = ROOT / "topologies" / "examples" / "aggregation"
STEP, LOCAL, FILES = EXAMPLE / "aggregation.conf", EXAMPLE / "local.conf", EXAMPLE / "files.conf"
PAGES = [ROOT / "docs" / "step.md", ROOT / "docs" / "step-reference.md"]


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


# ---- the example


def test_the_step_is_the_handler_s_own_example() -> None:
    assert STEP.read_bytes() == (CORPUS / "aggregation.conf").read_bytes()


def test_with_its_surroundings_the_step_is_well() -> None:
    result = _invoke("check", str(STEP), "--with", str(LOCAL))
    assert result.exit_code == 0, result.output
    assert "To run it" not in result.stdout
    assert missing_sections(load_step(STEP, overlays=[LOCAL])) == []


def test_its_own_absolute_schema_is_all_that_it_lacks() -> None:
    result = _invoke("check", str(STEP))
    assert result.exit_code == 1
    assert "1 problem:" in result.stdout
    assert "format.output.schema[0]: '/file/path/to/avro/schema' does not exist" in result.stdout


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text("utf-8").splitlines()]


def test_it_runs_on_files(tmp_path: Path) -> None:
    out = f"connections.output.path={tmp_path / 'out'}"
    result = _invoke("run", str(STEP), "--with", str(FILES), "--set", out, "--engine", "local")
    assert result.exit_code == 0, result.output
    results = [(row["key"], json.loads(row["value"])) for row in _rows(tmp_path / "out" / "output")]
    assert sorted(results, key=str) == [
        ("east", {"shop": "east", "orders": 1, "total": 20.0}),
        ("north", {"shop": "north", "orders": 1, "total": 30.0}),
        ("north", {"shop": "north", "orders": 3, "total": 21.0, "lastOrder": 6}),
        ("south", {"shop": "south", "orders": 2, "total": 7.5}),
    ]
    reasons = [
        header["value"]
        for row in _rows(tmp_path / "out" / "deadletter")
        for header in row["headers"]
        if header["key"] == "windbolt-reason"
    ]
    assert len(reasons) == 2
    assert "not valid JSON" in reasons[0]
    assert "KeyError: 'shop'" in reasons[1]


def _rule(name: str, kind: Any) -> Any:
    return load_rule(NamedRule(kind, "classpath", f"testDsl/aggregation/{name}.tr", roots=[EXAMPLE]))


def test_orders_are_gathered_by_shop() -> None:
    assert _rule("key", "key")(Event({"shop": "north"})) == "north"


def test_the_last_order_and_the_hundredth_fire() -> None:
    trigger, call = _rule("trigger", "trigger"), TriggerCall()
    assert trigger(Event({"last": True}), TriggerCall()) == FireResult.FIRE_AND_PURGE
    said = [trigger(Event({}), call) for _ in range(100)]
    assert said == [FireResult.CONTINUE] * 99 + [FireResult.FIRE_AND_PURGE]


def test_what_the_rules_make_fits_the_schemas() -> None:
    aggregate = _rule("simple", "dsl")
    output = load_step(STEP, overlays=[LOCAL]).format.output
    assert isinstance(output, AvroSection)
    avro = messages_of(output)
    orders = [Event({"id": 1, "amount": 1.5}), Event({"id": 2, "amount": 2, "last": True})]
    for events, takings in (
        (orders[:1], {"shop": "a", "orders": 1, "total": 1.5}),
        (orders, {"shop": "a", "orders": 2, "total": 3.5, "lastOrder": 2}),
    ):
        out = aggregate(events, Aggregation(key="a", count=len(events)))
        assert isinstance(out, Out)
        headers = {name: header_raw(text) or b"" for name, text in (out.headers or {}).items()}
        assert avro.read(avro.write(out.value, headers), headers) == takings


# ---- its guide


@dataclass(frozen=True)
class Block:
    """A fenced example: its language, its text, and the file that it is."""

    language: str
    text: str
    file: str | None
    place: str
    """The page, and the line of the example."""


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            before = text[: found.start()].rstrip().rsplit("\n\n", 1)[-1]
            name = re.search(r"`([\w./]+)`:$", before)
            place = f"{page.name}:{text.count(chr(10), 0, found.start()) + 2}"
            yield Block(found[1], found[2], name[1] if name else None, place)


BLOCKS = list(_blocks())


def _of(language: str, *, named: bool = False) -> list[Any]:
    return [
        pytest.param(block, id=block.place)
        for block in BLOCKS
        if block.language == language and (block.file is not None) == named
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All files of the guide, in a folder that is the current one."""
    for block in BLOCKS:
        if block.file is not None:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_is_tried() -> None:
    tried = {"hocon", "console"}
    assert [block for block in BLOCKS if block.file is None and block.language not in tried] == []
    assert len(BLOCKS) > 15


def test_the_commands_say_what_the_guide_says(folder: Path) -> None:
    for block in BLOCKS:
        if block.language != "console":
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            first, *arguments = shlex.split(command)
            if first == "windbolt":
                result = _invoke(*arguments)
                assert result.exit_code == 0, f"{block.place}: {command}\n{result.output}"
                said = result.stdout
            else:
                said = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
            if expected:
                assert said == expected, f"{block.place}: {command}"


@pytest.mark.parametrize("block", _of("hocon"))
def test_each_piece_of_configuration_goes_over_the_first_step(folder: Path, block: Block) -> None:
    (folder / "piece.conf").write_text(block.text, encoding="utf-8")
    config = load_step(folder / "orders.conf", overlays=[folder / "piece.conf"])
    assert step_problems(config, load=True) == []


def test_with_its_overlay_the_first_step_is_one_of_kafka(folder: Path) -> None:
    result = _invoke("check", "orders.conf", "--with", "kafka.conf")
    assert result.exit_code == 0, result.output
    assert "Kafka main at localhost:9092, topic totals" in result.stdout


def test_the_tests_of_the_guide_s_rules_pass(folder: Path) -> None:
    tests = [block.file for block in BLOCKS if block.file and block.file.startswith("test_")]
    assert tests
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *tests]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": f"{ROOT}:{folder}"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_scenario_of_a_step_in_the_docs_holds(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8").partition("## Aggregation steps")[2]
    (tmp_path / "pairs.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    shutil.copytree(SCENARIOS / "handler" / "rules", tmp_path / "rules")
    result = _invoke("replay", "-q", str(tmp_path / "pairs.yaml"))
    assert result.exit_code == 0, result.output


def test_every_key_of_the_configuration_is_in_the_guide() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = {name for model in _models(StepConfig, []) for name in _names(model)}
    assert {"stateFull", "maxEmptyIntervals", "fieldTypes", "bootstrap.servers"} <= names
    assert sorted(name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)) == []


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def _models(model: type[BaseModel], known: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """The model and all within it; a step may be within a step."""
    if model not in known:
        known.append(model)
        for field in model.model_fields.values():
            for inner in _within(field.annotation):
                _models(inner, known)
    return known


def _within(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _within(inner)
