"""What is wrong with executors, from their answers, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topologies.spark.cluster.probes import ProbedPlace
from windowing.errors import EnvironmentMissing

_MOST_SKEW = 60_000_000
"""Microseconds that a clock may differ from the driver's. Object stores refuse requests that are signed at a time some
minutes away, and the times in logs do not fit together long before."""
_NAMED = 3
"""How many executors an error names."""
_PYTHON = "give all of them the driver's environment: spark.pyspark.python, or --archives with PYSPARK_PYTHON"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one executor."""

    host: str
    what: str
    """Continues a sentence that begins with the executor: ``has no pyarrow``."""
    why: str
    do: str


def faults_of(
    answers: Sequence[Mapping[str, Any]],
    places: Sequence[ProbedPlace],
    packages: Mapping[str, str],
    took: tuple[int, int],
) -> list[Fault]:
    """All faults, the most basic first. ``took``: when they were asked and when they had answered, by the driver's
    clock in microseconds."""
    found: list[Fault] = []
    for of_kind in (_packages, _modules, _places, _clock):
        for answer in answers:
            found += of_kind(answer, places, packages, took)
    return found


def refused(faults: Sequence[Fault], executors: int) -> EnvironmentMissing:
    """The error for these faults: the first one, on all hosts that have it, and how many others there are."""
    first = faults[0]
    hosts = list(dict.fromkeys(fault.host for fault in faults if fault.what == first.what))
    others = list(dict.fromkeys(fault.what for fault in faults if fault.what != first.what))
    names = ", ".join(hosts[:_NAMED]) + (f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else "")
    more = f". Besides, an executor {'; '.join(others[:_NAMED])}" if others else ""
    return EnvironmentMissing(
        f"the executor on {names} {first.what}" if len(hosts) == 1 else f"the executors on {names} each: {first.what}",
        why=f"{first.why}; {executors} executor{'s were' * (executors > 1) or ' was'} asked{more}",
        do=first.do,
    )


def _packages(answer: Mapping[str, Any], _: Any, packages: Mapping[str, str], __: Any) -> Iterator[Fault]:
    host, python = answer["host"], answer["python"]
    for name, said in answer["missing"].items():
        yield Fault(host, f"has no {name}", f"{python}: {said}", f"install it there, or {_PYTHON}")
    theirs, ours = answer["versions"].get("numpy", ""), packages["numpy"]
    if theirs and theirs.partition(".")[0] != ours.partition(".")[0]:
        yield Fault(
            host,
            f"has numpy {theirs}, and the driver {ours}",
            f"{python}: arrays cannot be sent from one to the other",
            f"install the same version there, or {_PYTHON}",
        )


def _modules(answer: Mapping[str, Any], *_: Any) -> Iterator[Fault]:
    host, python = answer["host"], answer["python"]
    if answer.get("lacking"):
        names = ", ".join(answer["lacking"])
        why = f"{python}: the topology's modules import it"
        yield Fault(host, f"has no {names}", why, f"install it there, or {_PYTHON}")
    if "failed" in answer:
        yield Fault(
            host,
            "cannot load the topology",
            f"{python}: {answer['failed']}",
            "send modules that are imported by a computed name with --py-files, install packages there, or " + _PYTHON,
        )


def _places(answer: Mapping[str, Any], places: Sequence[ProbedPlace], *_: Any) -> Iterator[Fault]:
    for number, said in sorted(answer.get("unseen", {}).items()):
        place = places[number]
        yield Fault(
            answer["host"],
            f"does not see {place.what}, {place.path}",
            said,
            "put it where all machines reach it under one name: a shared folder, or an object store such as s3://",
        )


def _clock(answer: Mapping[str, Any], _: Any, __: Any, took: tuple[int, int]) -> Iterator[Fault]:
    early, late = took[0] - answer["clock"], answer["clock"] - took[1]
    if max(early, late) > _MOST_SKEW:
        skew = max(early, late) // 1_000_000
        yield Fault(
            answer["host"],
            f"has a clock that is {skew:,} s {'behind' if early > 0 else 'ahead of'} the driver's",
            "object stores and Kerberos refuse requests from such machines, and logs cannot be compared",
            "set its clock, for example with chrony or ntpd",
        )
