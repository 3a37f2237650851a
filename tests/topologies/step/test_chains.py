"""Chains of aggregation steps: what is built of them, what is refused, and a run from files to files (UH-32)."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.topology_fit import differences
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.step.compile_step import as_component_name, step_topology
from topologies.step.config import Destination
from topologies.step.config_files import Step, StepConfigError, load_step
from topologies.step.describe_step import as_mermaid, step_text, summary, to_json
from windowing.errors import BoltError

pytestmark = pytest.mark.feature("UH-32")

RULES = """
from windbolt.step import Out

def total(events, call):
    if any(event.value.get("fail") == "users" for event in events):
        raise ValueError("no user")
    user, shop = call.key.split("@")
    return Out({"n": sum(event.value["n"] for event in events), "user": user}, key=shop, headers={"by": user})

def shop(events, call):
    if any(event.value["n"] > 90 for event in events):
        raise ValueError("too much")
    small = sum(event.value["n"] for event in events)
    branch = "large" if small > 10 else None
    return "decline" if small < 2 else Out({"shop": call.key, "n": small}, key=call.key, branch=branch)

def alarm(events, call):
    return Out({"alarms": call.count}, key=call.key)

def rescue(events, call):
    (event,) = events
    if event.value.get("poison"):
        raise ValueError("nor this")
    return Out({"why": event.headers["windbolt-reason"]}, key=event.key, headers=dict(event.headers))
"""

FILES = {"type": "files", "name": "disk"}


def topic(name: str, connection: str = "disk") -> dict[str, Any]:
    return {"name": name, "topic": name, "config": {"name": connection}}


def a_step(name: str, rule: str, destination: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "aggregation",
        "format": {"input": "json", "output": "json"},
        "key": {"type": "key"},
        "trigger": {"type": "count", "count": 2, "timeout": "1h"},
        "dsl": {"source": "file", "path": f"rules.py:{rule}"},
        "destination": destination,
        **more,
    }


ALARMS = a_step("large", "alarm", topic("alarms"))
RESCUE = a_step(
    "rescue", "rescue", topic("rescued"), error=topic("lost"), trigger={"type": "count", "count": 1, "timeout": 1}
)
SHOPS = a_step("shops", "shop", topic("totals"), branches=[ALARMS], error=topic("wrong"))
CHAIN: dict[str, Any] = {
    **a_step("users", "total", SHOPS, error=RESCUE),
    "source": {"type": "files", "path": "in/*.jsonl", "topic": "orders"},
    "connections": {"disk": {"type": "files", "path": "out"}},
}


def written(folder: Path, **changes: Any) -> Path:
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    path = folder / "chain.json"
    path.write_text(json.dumps({**CHAIN, **changes}), encoding="utf-8")
    return path


def fed(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "1.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def order(key: str | None, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "partition": 3, "offset": 7}


def out(folder: Path, name: str) -> list[dict[str, Any]]:
    files = sorted((folder / "out" / name).glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def values(folder: Path, name: str) -> list[Any]:
    return [json.loads(row["value"]) for row in out(folder, name)]


def topology(folder: Path, **changes: Any) -> Graph:
    return step_topology(load_step(written(folder, **changes)))


def test_a_chain_runs_from_files_to_files(tmp_path: Path) -> None:
    fed(
        tmp_path,
        order("ada@a", n=1), order("ada@a", n=2), order("bob@a", n=5), order("bob@a", n=6),
        order("eve@b", n=0), order("eve@b", n=1),
        order("fay@c", n=50), order("fay@c", n=50),
        order("gil@d", n=1, fail="users"), order("gil@d", n=1, poison=True),
        order("hal@e", n=4),
        {"value": "no JSON", "key": "x"},
    )  # fmt: skip
    run_local(pickle.loads(pickle.dumps(topology(tmp_path))), RunOptions())
    assert values(tmp_path, "totals") == [{"shop": "e", "n": 4}]
    assert values(tmp_path, "alarms") == [{"alarms": 1}]
    (wrong,) = out(tmp_path, "wrong")
    assert (wrong["key"], wrong["value"]) == ("c", '{"n":100,"user":"fay"}')
    told = {each["key"]: each["value"] for each in wrong["headers"]}
    assert set(told) == {"by", "windbolt-reason", "windbolt-topic"}
    assert told["windbolt-topic"] == "shops"
    assert told["windbolt-reason"].endswith("ValueError: too much")
    (rescued,) = out(tmp_path, "rescued")
    told = {each["key"]: each["value"] for each in rescued["headers"]}
    assert told["windbolt-reason"].endswith("ValueError: no user")
    assert (told["windbolt-topic"], told["windbolt-partition"], told["windbolt-offset"]) == ("orders", "3", "7")
    lost = out(tmp_path, "lost")
    assert {row["value"] for row in lost} == {"no JSON", '{"n":1,"poison":true}'}
    poison = next(row for row in lost if "poison" in row["value"])
    headers = [(each["key"], each["value"]) for each in poison["headers"]]
    assert [name for name, _ in headers] == [
        "windbolt-reason", "windbolt-topic", "windbolt-partition", "windbolt-offset"
    ]  # fmt: skip
    assert headers[0][1].endswith("ValueError: nor this")
    assert headers[1:] == [("windbolt-topic", "orders"), ("windbolt-partition", "3"), ("windbolt-offset", "7")]


def test_the_accounts_and_counts_of_each_step_are_its_own(tmp_path: Path) -> None:
    fed(tmp_path, order("ada@a", n=0), order("ada@a", n=1), order("bob@b", n=1), order("bob@b", n=2))
    summary = run_local(topology(tmp_path), RunOptions())
    assert summary.last is not None
    bolts = summary.last.bolts
    assert {name: bolt.counters for name, bolt in bolts.items() if bolt.counters} == {
        "shops-aggregate": {"declined": 1}
    }
    received = {name: bolt.accounts["received"] for name, bolt in bolts.items()}
    assert received == {"aggregate": 4, "shops-aggregate": 2, "large-aggregate": 0, "rescue-aggregate": 0}


def test_a_step_that_fails_without_an_error_section_is_named(tmp_path: Path) -> None:
    fed(tmp_path, order("ada@a", n=91), order("ada@a", n=1))
    shops = {name: value for name, value in SHOPS.items() if name != "error"}
    with pytest.raises(BoltError, match=r"step 'shops': a message of topic 'shops' failed: .*too much"):
        run_local(topology(tmp_path, destination=shops), RunOptions())


def test_what_cannot_be_read_of_a_file_fails_as_a_message_does(tmp_path: Path) -> None:
    source = {"type": "files", "path": "in/*.gz", "topic": "orders"}
    changes = {"source": source, "destination": topic("totals"), "trigger": {"type": "count", "count": 1, "timeout": 1}}
    (tmp_path / "in").mkdir()
    whole = gzip.compress(b"\n".join(json.dumps(order(f"u{n}@a", n=n)).encode() for n in range(2_000)))
    (tmp_path / "in" / "1.jsonl.gz").write_bytes(whole[:-2_000])
    with pytest.raises(BoltError, match=r"step 'users': .*1\.jsonl\.gz.*has no error section"):
        run_local(topology(tmp_path, **changes, error=None), RunOptions())
    run_local(topology(tmp_path, **changes, error=topic("wrong")), RunOptions())
    (wrong,) = out(tmp_path, "wrong")
    told = {each["key"]: each["value"] for each in wrong["headers"]}
    assert "1.jsonl.gz" in told["windbolt-reason"]
    assert told["windbolt-topic"] == "orders"


def test_files_that_are_counted_as_invalid_where_they_are_missing_stop_no_step(tmp_path: Path) -> None:
    source = {"type": "files", "path": "in/*.jsonl", "topic": "orders", "onMissing": "invalid"}
    assert "unread" not in topology(tmp_path, source=source, error=None).plain
    assert "unread" in topology(tmp_path, source=source).plain


def test_the_parts_of_a_step_are_named_by_it_and_those_of_the_first_as_ever(tmp_path: Path) -> None:
    found = topology(tmp_path)
    assert {"aggregate", "shops-aggregate", "large-aggregate", "rescue-aggregate"} == set(found.windowed)
    assert {"open", "read", "failures", "shops-read", "shops-failures"} < set(found.plain)
    assert as_component_name("shops") == "shops"
    names = [as_component_name(name) for name in ("магазины", "заказы", "a b", "a/b")]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) for name in names)


def test_what_steps_there_are_belongs_to_a_checkpoint(tmp_path: Path) -> None:
    before = TopologyRules.of(topology(tmp_path))
    last = topic("totals")
    changed = {
        "renamed": ({**SHOPS, "name": "stores"}, ["bolt 'shops-aggregate' is gone", "bolt 'stores-aggregate' is new"]),
        "removed": (last, ["bolt 'large-aggregate' is gone", "bolt 'shops-aggregate' is gone"]),
        "added": (
            {**SHOPS, "destination": a_step("more", "alarm", last)},
            ["bolt 'more-aggregate' is new"],
        ),
        "another trigger": (
            {**SHOPS, "trigger": {"type": "time", "time": "11:05", "timePattern": "HH:mm"}},
            ["bolt 'shops-aggregate': trigger of keys was 'CountTrigger', and is 'DailyTrigger'"],
        ),
        "more tasks": ({**SHOPS, "parallelism": 3}, ["bolt 'shops-aggregate': parallelism was 2, and is 3"]),
    }
    for destination, said in changed.values():
        assert differences(before, TopologyRules.of(topology(tmp_path, destination=destination))) == said
    free: dict[str, Any] = {
        **SHOPS,
        "trigger": {"type": "count", "count": 5, "timeout": 1},
        "key": {"type": "hash"},
        "dsl": {"source": "file", "path": "rules.py:alarm"},
        "stateFull": True,
        "error": topic("elsewhere"),
    }
    assert differences(before, TopologyRules.of(topology(tmp_path, destination=free))) == []
    swapped = {**ALARMS, "branches": [], "destination": {**SHOPS, "branches": []}}
    assert differences(before, TopologyRules.of(topology(tmp_path, destination=swapped))) == []


def test_destinations_of_one_place_share_a_sink_across_steps(tmp_path: Path) -> None:
    shops = {**SHOPS, "destination": topic("alarms"), "error": topic("lost")}
    assert set(topology(tmp_path, destination=shops).sinks) == {
        "alarms", "lost", "rescued", "large-none",
    }  # fmt: skip


def test_folders_of_destinations_are_below_a_place_in_a_store_that_has_options(tmp_path: Path) -> None:
    place = "s3://shop/out?endpoint_override=minio:9000"
    found = topology(tmp_path, connections={"disk": {"type": "files", "path": place}})
    sink = found.sinks["totals"].sink
    assert isinstance(sink, FileSink)
    assert sink.path == "s3://shop/out/totals?endpoint_override=minio:9000"


def test_a_folder_as_spark_writes_it_is_not_below_that_of_the_configuration(tmp_path: Path) -> None:
    source = {"type": "files", "path": "file:/data/in", "topic": "orders"}
    found = topology(tmp_path, source=source, connections={"disk": {"type": "files", "path": "file:/data/out"}})
    sink = found.sinks["totals"].sink
    assert isinstance(sink, FileSink)
    assert sink.path == "/data/out/totals"
    (spout,) = (node.spout for node in found.spouts.values())
    assert isinstance(spout, FileSpout)
    assert spout.paths == ("file:/data/in",)


def test_on_kafka_destinations_share_a_sink_where_their_undeliverable_messages_go_the_same_way(tmp_path: Path) -> None:
    text = json.dumps(CHAIN).replace("disk", "main")
    chain = json.loads(text)
    chain["source"] = {"type": "kafka", "topics": ["in"], "config": {"name": "main"}}
    chain["connections"] = {"main": {"type": "kafka", "servers": "h:9092", "max.request.size": 5000}}
    found = topology(tmp_path, **chain)
    sinks = {
        name: (part.sink.topics, part.sink.undeliverable and part.sink.undeliverable.topic)
        for name, part in found.sinks.items()
        if isinstance(part.sink, KafkaSink)
    }
    assert sinks == {
        "totals": (("totals", "wrong"), "wrong"),
        "alarms": (("alarms",), None),
        "rescued": (("rescued", "lost"), "lost"),
    }
    sender = {name: part.bolt.sender for name, part in found.windowed.items()}  # type: ignore[attr-defined]
    assert (sender["aggregate"].route.limit, sender["aggregate"].route.sources) == (None, frozenset())
    assert (sender["shops-aggregate"].route.limit, sender["shops-aggregate"].route.sources) == (5000, frozenset({"in"}))
    assert sender["shops-aggregate"].branches["large"].limit is None


def _put(path: str, value: Any) -> dict[str, Any]:
    """The chain with something else at a place; None: nothing there."""
    chain = deepcopy(CHAIN)
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    within: Any = chain
    for part in way:
        within = within[part]
    if value is None:
        del within[last]
    else:
        within[last] = value
    return chain


MISTAKES: dict[str, tuple[str, Any, str, str]] = {
    "a value": ("destination/trigger/timeout", -1, "destination.trigger.timeout", "a time above zero"),
    "deep": ("destination/branches/0/key", {"type": "kye"}, "destination.branches[0].key.type", "did you mean 'key'"),
    "of an error": ("error/format/input", "jsnn", "error.format.input", 'expected "json"'),
    "missing": ("destination/dsl", None, "destination.dsl", "expected, and not there: where the rules are"),
    "unknown": ("destination/kye", 1, "destination.kye", "unknown key; did you mean 'key'"),
    "a type": ("destination/type", "agregation", "destination.type", "did you mean 'aggregation'"),
    "source": ("destination/source", {}, "destination.source", "at the top of the file alone"),
    "loops": ("error/allowLoops", True, "error.allowLoops", "at the top of the file alone"),
    "same names": ("destination/branches/0/name", "rescue", "error.name", "which is that of destination.branches[0]"),
    "first name": ("error/name", "users", "error.name", "found 'users', which is that of the first step"),
    "formats": ("destination/format/input", "xml", "destination.format.input", "expected json, which is what users"),
    "a format that is not known says nothing of the next": (
        "format/output", "jsn", "format.output", 'expected "json"',
    ),
    "a rule": ("destination/dsl/path", "rules.py:none", "destination.dsl", "none"),
    "a connection": (
        "destination/branches/0/destination/config/name", "dsk",
        "destination.branches[0].destination.config.name", "did you mean 'disk'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("place", "value", "path", "text"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_wrong_with_a_further_step_is_told_with_its_place(
    tmp_path: Path, place: str, value: Any, path: str, text: str
) -> None:
    from topologies.step.compile_step import step_problems

    chain = _put(place, value)
    if value == "jsn":
        chain["destination"]["format"]["input"] = "xml"  # which what is not known might write
    with pytest.raises(StepConfigError) as error:
        load_step(written(tmp_path, **chain), further=lambda step: step_problems(step, load=False))
    problems = {problem.path: problem.text for problem in error.value.problems}
    assert list(problems) == [path]
    assert text in problems[path]


def test_the_mistakes_of_all_steps_are_told_at_once(tmp_path: Path) -> None:
    from topologies.step.compile_step import step_problems

    chain = _put("destination/trigger/timeout", -1)
    chain["destination"]["dsl"]["path"] = "nowhere.py"
    chain["destination"]["branches"][0]["parallelism"] = 0
    chain["destination"]["branches"][0]["dsl"]["path"] = "rules.py:none"
    chain["error"]["key"] = 5
    chain["error"]["destination"]["config"]["name"] = "dsk"
    with pytest.raises(StepConfigError) as error:
        load_step(written(tmp_path, **chain), further=lambda step: step_problems(step, load=False))
    assert {problem.path for problem in error.value.problems} == {
        "destination.trigger.timeout", "destination.dsl", "destination.branches[0].parallelism",
        "destination.branches[0].dsl", "error.key", "error.destination.config.name",
    }  # fmt: skip


def test_rows_of_csv_with_other_fields_cannot_be_read(tmp_path: Path) -> None:
    def csv(*names: str, separator: str = ";") -> dict[str, Any]:
        return {"type": "csv", "columnSeparator": separator, "fieldNames": list(names)}

    formats = {"input": "json", "output": csv("a", "b")}
    shops = {**SHOPS, "format": {"input": csv("a"), "output": "json"}}
    with pytest.raises(StepConfigError, match=r"destination\.format\.input\.fieldNames: expected 2 fields"):
        load_step(written(tmp_path, format=formats, destination=shops))
    for read in (csv("c", "d"), csv("a", separator=","), "json"):
        load_step(written(tmp_path, format=formats, destination={**shops, "format": {"input": read, "output": "json"}}))


def test_an_error_step_may_read_what_nobody_else_could(tmp_path: Path) -> None:
    rescue = {**RESCUE, "format": {"input": "xml", "output": "json"}}
    load_step(written(tmp_path, error=rescue))


def test_a_loop_through_a_further_step_is_found(tmp_path: Path) -> None:
    main = json.loads(json.dumps(CHAIN).replace("disk", "main"))
    main["source"] = {"type": "kafka", "topics": ["alarms"], "config": {"name": "main"}}
    main["connections"] = {"main": {"type": "kafka", "servers": "h:9092"}}
    with pytest.raises(StepConfigError, match=r"destination\.branches\[0\]\.destination\.topic: .*a loop"):
        load_step(written(tmp_path, **main))


def test_what_is_laid_over_a_further_step(tmp_path: Path) -> None:
    path = written(tmp_path)
    step = load_step(path, assignments={"destination.destination.topic": "t", "destination.trigger.count": "9"})
    assert isinstance(step.destination, Step)
    assert isinstance(step.destination.destination, Destination)
    assert (step.destination.destination.topic, step.destination.destination.name) == ("t", "totals")
    for kind, of in ((topic("plain") | {"type": "destination"}, Destination), (ALARMS | {"name": "new"}, Step)):
        over = tmp_path / "over.json"
        over.write_text(json.dumps({"destination": kind, "error": ALARMS | {"name": "again"}}), encoding="utf-8")
        step = load_step(written(tmp_path, error=topic("dead")), overlays=[over])
        assert isinstance(step.destination, of)
        assert isinstance(step.error, Step)


def test_a_chain_in_words(tmp_path: Path) -> None:
    step = load_step(written(tmp_path))
    text = step_text(step)
    assert [line for line in text.splitlines() if line.startswith("step ")] == [
        f"step users ({tmp_path}/chain.json)", "step shops", "step large", "step rescue"
    ]  # fmt: skip
    for words in ("the results of step users", "branch large of step shops", "what fails in step users"):
        assert f"\nsource\n  {words}\n" in text
    assert "branch large: the step large" in text
    assert "step shops\n    formats   json to json" in summary(step)
    found = to_json(step)
    assert list(found["next_in_words"]) == ["shops", "large", "rescue"]
    assert found["step"]["destination"]["branches"][0]["name"] == "large"


def test_a_chain_as_a_flowchart(tmp_path: Path) -> None:
    chart = as_mermaid(load_step(written(tmp_path))).splitlines()
    edges = [line.strip() for line in chart if "-->" in line]
    assert {"rules --> key1", "rules1 --> out1_0", "rules3 --> out3_0"} < set(edges)
    assert any(re.fullmatch(r"rules1 -->\|.*branch large.*\| key2", edge) for edge in edges)
    assert any(re.fullmatch(r"key -->\|.*fails.*\| key3", edge) for edge in edges)
    nodes = [match.group(1) for line in chart if (match := re.match(r"\s+(\w+)[\[(]", line)) and "-->" not in line]
    assert len(nodes) == len(set(nodes)) == 18


def test_branches_whose_names_differ_by_signs_alone_stay_apart(tmp_path: Path) -> None:
    """Also where the name of one is what another's would become."""
    names = ["a-b-2", "a b", "a-b", "a_b", "a+b"]
    sent = f"\ndef each(events, call):\n    return [Out({{'to': name}}, branch=name) for name in {names}]\n"
    path = written(
        tmp_path,
        dsl={"source": "file", "path": "rules.py:each"},
        destination=topic("totals"),
        branches=[{**topic(name), "topic": f"t{at}"} for at, name in enumerate(names)],
    )
    (tmp_path / "rules.py").write_text(RULES + sent, encoding="utf-8")
    fed(tmp_path, order("ada@a", n=1), order("ada@a", n=2))
    run_local(step_topology(load_step(path)), RunOptions())
    assert [values(tmp_path, f"t{at}") for at in range(len(names))] == [[{"to": name}] for name in names]


def test_a_chain_has_an_end(tmp_path: Path) -> None:
    chain = topic("totals")
    for number in range(60):
        chain = a_step(f"step-{number}", "shop", chain)
    with pytest.raises(StepConfigError, match="at most 50 steps, found 61"):
        load_step(written(tmp_path, destination=chain))
    for _ in range(11):
        chain = chain["destination"]
    assert len(load_step(written(tmp_path, destination=chain, error=topic("failed"))).steps) == 50
