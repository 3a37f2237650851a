"""Random scenarios of Azure Stream Analytics: small whole numbers, so that ties and boundaries are frequent."""

from random import Random

from tests.oracles.expected import Json


def azure_case(random: Random) -> Json:
    """A scenario without an `expect`."""
    shape = random.choice(["one", "one", "streams", "partitions", "partitions", "substreams", "substreams"])
    arrivals = random.choice(["clock", "arrival", "field", "field and clock", "field and arrival"])
    if shape == "one" and random.random() < 0.2:
        arrivals = "field, unordered"
    preset = _preset(random, arrivals)
    bolt: Json = {"preset": {"azure": preset}, "timestamp_field": "ts", **_windows(random)}
    scenario: Json = {"name": "azure", "bolt": bolt}
    if shape == "substreams":
        bolt["substreams"] = ["p"]
    elif random.random() < 0.2:
        bolt["key"] = ["k"]
    if shape == "streams":
        scenario["streams"] = ["s1", "s2"] if random.random() < 0.7 else ["s1", "s2", "s3"]
    if shape == "partitions":
        bolt["watermark_partition"] = "p"
        scenario["partitions"] = ["a", "b"] if random.random() < 0.6 else ["a", "b", "c"]
        if random.random() < 0.2:
            scenario["streams"] = ["s1", "s2"]
        elif random.random() < 0.2:
            del scenario["partitions"]  # those that deliver are known, and nothing moves the others
            preset["late"] = None
    if shape == "one" and arrivals.startswith("field") and arrivals != "field, unordered" and random.random() < 0.2:
        del bolt["timestamp_field"]
    scenario["steps"] = _steps(random, scenario, arrivals)
    return scenario


def _preset(random: Random, arrivals: str) -> Json:
    preset: Json = {"late": random.choice([None, "0ms", "2ms", "4ms", "7ms", "20ms"])}
    preset["out_of_order"] = f"{random.choice([0, 0, 1, 2, 4])}ms"
    preset["early"] = random.choice([None, "0ms", "2ms", "5ms"])
    preset["action"] = random.choice(["adjust", "drop"])
    if arrivals.startswith("field"):
        preset["arrival_field"] = "at"
    return preset


def _windows(random: Random) -> Json:
    kind = random.choice(["tumbling", "hopping", "hopping", "sliding", "session", "session", "snapshot", "several"])
    match kind:
        case "tumbling":
            length = random.randint(1, 6)
            return {"length": f"{length}ms", "tumbling": True, **_offset(random, length)}
        case "hopping":
            hop = random.randint(1, 6)
            return {"length": f"{random.randint(1, 8)}ms", "sliding": f"{hop}ms", **_offset(random, hop)}
        case "sliding":
            return {"sliding_log": f"{random.randint(1, 6)}ms"}
        case "session":
            session: Json = {"gap": f"{random.randint(1, 4)}ms"}
            if random.random() < 0.6:
                session["max_duration"] = f"{random.randint(3, 8)}ms"
            return {"session": session}
        case "snapshot":
            return {"snapshot": True}
    some = [
        {"tumbling": f"{random.randint(1, 6)}ms"},
        {"hopping": {"length": f"{random.randint(1, 6)}ms", "slide": f"{random.randint(1, 6)}ms"}},
        {"session": {"gap": f"{random.randint(1, 4)}ms"}},
    ]
    return {"windows": random.sample(some, random.randint(2, 3))}


def _offset(random: Random, below: int) -> Json:
    if below == 1 or random.random() < 0.7:
        return {}
    return {"offset": f"{random.randint(1, below - 1)}ms"}


def _steps(random: Random, scenario: Json, arrivals: str) -> list[Json]:
    steps: list[Json] = []
    now, behind = random.choice([-10, 0, 100]), random.choice([0, 0, 3])
    silent = random.choice("abc")  # one that says nothing from some moment on, or from the first
    until = random.choice([0, 5, 99])
    for number in range(random.randint(3, 16)):
        now += random.choice([0, 0, 1, 1, 2, 4])
        steps.append(_event(random, scenario, arrivals, now, behind, number, silent if number >= until else None))
        if arrivals in {"clock", "arrival", "field and clock", "field and arrival"} and random.random() < 0.25:
            now += random.choice([0, 1, 3, 8])
            steps.append({"clock": now})
    if random.random() < 0.6:
        steps.append({"close": True})
    return steps


def _event(
    random: Random, scenario: Json, arrivals: str, now: int, behind: int, number: int, silent: str | None
) -> Json:
    arrival = now - behind if arrivals.startswith("field") else now
    if arrivals == "field, unordered":
        arrival += random.choice([0, -3, 5])
    event: Json = {"id": f"e{number}", "ts": arrival - random.choice([0, 0, 1, 2, 3, 5, 8, -1, -2, -4])}
    if arrivals.startswith("field"):
        event["at"] = arrival
    others = [name for name in "abc" if name != silent]
    bolt = scenario["bolt"]
    if "substreams" in bolt:
        event["p"] = random.choice(others)
    if "watermark_partition" in bolt:
        event["p"] = random.choice([name for name in others if name in scenario.get("partitions", "abc")])
    if "key" in bolt:
        event["k"] = random.choice("xy")
    if random.random() < 0.1 and "timestamp_field" in bolt and bolt["preset"]["azure"]["late"] is None:
        del event["ts"]
    step: Json = {"event": event}
    if "streams" in scenario:
        names = [f"s{'abc'.index(name) + 1}" for name in others]
        step["stream"] = random.choice([name for name in names if name in scenario["streams"]])
    if arrivals in {"clock", "field and clock"}:
        step["clock"] = now
    if arrivals in {"arrival", "field and arrival"}:
        step["arrival"] = now
    return step
