"""Random scenarios of StreamInsight: small whole numbers, so that ties and boundaries are frequent."""

from random import Random

from tests.oracles.expected import Json

Edges = dict[str, tuple[int, str | None]]  # by key: the start, and the input


def streaminsight_case(random: Random) -> Json:
    """A scenario without an `expect`."""
    shapes = random.choice(["points", "points", "intervals", "edges"])
    preset: Json = {"policy": random.choice(["drop", "adjust"])}
    bolt: Json = {"preset": {"streaminsight": preset}, "timestamp_field": "start", **_windows(random, shapes)}
    scenario: Json = {"name": "streaminsight", "bolt": bolt}
    if random.random() < 0.35:
        scenario["streams"] = ["s1", "s2"]
    _ctis(random, scenario)
    if shapes != "points":
        bolt["end_field"] = "end"
    if shapes == "edges":
        bolt |= {"shape_field": "shape", "edge_key": ["k"]}
    scenario["steps"] = _steps(random, scenario, shapes)
    return scenario


def _windows(random: Random, shapes: str) -> Json:
    match random.choice(["tumbling", "hopping", "snapshot", "snapshot", *(["count"] if shapes == "points" else [])]):
        case "tumbling":
            return {"length": f"{random.randint(1, 6)}ms", "tumbling": True}
        case "hopping":
            return {"length": f"{random.randint(1, 8)}ms", "sliding": f"{random.randint(1, 6)}ms"}
        case "snapshot":
            return {"snapshot": True}
    return {"count_by_start": random.randint(1, 4)}


def _ctis(random: Random, scenario: Json) -> None:
    """Put in by the source, or generated every N events or every T; imported by the second input."""
    preset = scenario["bolt"]["preset"]["streaminsight"]
    match random.choice(["source", "events", "events", "time"]):
        case "source":
            preset |= {"every": None, "field": "cti"}
        case "events":
            preset["every"] = random.randint(1, 4)
        case "time":
            preset["every"] = f"{random.randint(1, 6)}ms"
    if preset["every"] is not None:
        preset["delay"] = random.choice(["0ms", "0ms", "1ms", "3ms", "-1us"])
        preset["to_infinity"] = random.random() < 0.5
    if "streams" in scenario and random.random() < 0.4:
        preset["imports"] = {"s2": "s1"}
        if isinstance(preset["every"], int) and random.random() < 0.4:
            scenario["bolt"]["imports_beside"] = True


def _steps(random: Random, scenario: Json, shapes: str) -> list[Json]:
    steps: list[Json] = []
    now = random.choice([-10, 0, 100])
    open_edges: Edges = {}
    early: Edges = {}
    punctuated = scenario["bolt"]["preset"]["streaminsight"]["every"] is None
    for number in range(random.randint(3, 16)):
        now += random.choice([0, 1, 1, 2, 3])
        event: Json = {"id": f"e{number}"}
        step: Json = {"event": event}
        if "streams" in scenario:
            step["stream"] = random.choice(scenario["streams"])
        if punctuated and random.random() < 0.3:
            event["cti"] = now - random.choice([0, 0, 1, 3, -1])
        elif shapes == "edges":
            _edge(random, step, number, now, open_edges, early)
        else:
            event["start"] = now - random.choice([0, 0, 0, 1, 2, 4])
            if shapes == "intervals":
                event["end"] = event["start"] + random.choice([1, 1, 2, 3, 5, 9])
            elif random.random() < 0.02:
                del event["start"]
        steps.append(step)
    if random.random() < 0.5:
        steps.append({"close": True})
    return steps


def _edge(random: Random, step: Json, number: int, now: int, open_edges: Edges, early: Edges) -> None:
    event = step["event"]
    if random.random() < 0.1:  # an end edge that comes first
        start = now - random.choice([0, 0, 1])
        early[f"k{number}"] = (start, step.get("stream"))
        event |= {"start": start, "end": start + random.choice([1, 2, 3, 6]), "shape": "end_edge", "k": f"k{number}"}
        return
    if early and random.random() < 0.5:
        key = random.choice(sorted(early))
        start, stream = early.pop(key)
        event |= {"start": start, "shape": "start_edge", "k": key}
        if stream is not None:
            step["stream"] = stream
        return
    if open_edges and random.random() < 0.4:
        key = random.choice(sorted(open_edges))
        start, stream = open_edges.pop(key)
        end = max(start + 1, now + random.choice([-3, -1, 0, 0, 1, 2]))
        event |= {"start": start, "end": end, "shape": "end_edge", "k": key}
        if stream is not None:
            step["stream"] = stream
        return
    start = now - random.choice([0, 0, 0, 1, 2, 4])
    event["start"], event["k"] = start, f"k{number}"
    match random.choice(["start_edge", "start_edge", "interval", "point"]):
        case "start_edge":
            event["shape"] = "start_edge"
            open_edges[f"k{number}"] = (start, step.get("stream"))
        case "interval":
            event |= {"shape": "interval", "end": start + random.choice([1, 1, 2, 3, 5, 9])}
        case "point":
            event["shape"] = "point"
