"""Asks every executor of a cluster, before the first batch, whether it can run the topology."""

from __future__ import annotations

import importlib.util
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
from pyspark import cloudpickle

from manager.storage.files import delete_folder, make_folder, path_exists, read_bytes, write_private
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout, SpoutOfRowsInMemory
from topologies.io.paths import is_never_input, locate, matching_entries, path_before_pattern, shown_path
from topologies.io.sinks import FileSink
from topologies.run import clock
from topologies.run.clock import system_clock
from topologies.spark import sent_by_value
from topologies.spark.shipping import NeededModules
from windowing.errors import EnvironmentMissing, StorageError, WindboltError

# Do driver and executors see the same files? Each writes a text that the other reads.


_FOLDER = ".windbolt-probe"
"""Name of a folder in each folder that the run writes to; deleted before the first batch."""
_DRIVER = "driver"


@dataclass(frozen=True)
class ProbedPlace:
    """A folder or file that every process of a run must see."""

    what: str
    """The role of the place, in errors: ``the checkpoint``."""
    path: str
    is_written_to: bool
    """True for a place that tasks write to; False if they only read it."""

    @property
    def _filesystem_and_path(self) -> tuple[pafs.FileSystem, str]:
        filesystem, inside, _ = locate(self.path)
        return filesystem, inside.rstrip("/") or "/"

    def prepare(self, probe: str) -> None:
        """Called on the driver: writes texts for the executors."""
        if self.is_written_to:
            filesystem, folder = self._filesystem_and_path
            make_folder(filesystem, f"{folder}/{_FOLDER}")
            write_private(filesystem, f"{folder}/{_FOLDER}/{_DRIVER}", probe.encode())

    def check_on_executor(self, probe: str, task: int) -> str | None:
        """Called on an executor: reads the driver's text, and writes one. Returns the problem, or None."""
        try:
            filesystem, path = self._filesystem_and_path
            if not self.is_written_to:
                return None if path_exists(filesystem, path) else "it is not there"
            if not path_exists(filesystem, path):
                return "it is not there"
            note = f"{path}/{_FOLDER}/{_DRIVER}"
            if not path_exists(filesystem, note) or read_bytes(filesystem, note) != probe.encode():
                return "what the driver has written is not there: it is another folder of the same name"
            write_private(filesystem, f"{path}/{_FOLDER}/{task}", f"{probe}{task}".encode())
        except (StorageError, EnvironmentMissing, OSError, ValueError) as error:
            return _reason(error)
        return None

    def check_answer(self, probe: str, task: int) -> str | None:
        """Called on the driver: looks for the text of an executor. Returns the problem, or None."""
        if not self.is_written_to:
            return None
        try:
            filesystem, folder = self._filesystem_and_path
            same = read_bytes(filesystem, f"{folder}/{_FOLDER}/{task}") == f"{probe}{task}".encode()
        except (StorageError, OSError) as error:
            return f"what it writes there the driver does not see: {_reason(error)}"
        return None if same else "what it writes there the driver does not see"

    def clear(self) -> None:
        """Called on the driver: deletes the texts."""
        if self.is_written_to:
            filesystem, folder = self._filesystem_and_path
            with suppress(StorageError):
                delete_folder(filesystem, f"{folder}/{_FOLDER}")


def probed_places(topology: Graph, checkpoint: str) -> list[ProbedPlace]:
    """Returns the files and folders that every process of a run must see, if they exist on the driver."""
    places = [ProbedPlace("the checkpoint", shown_path(checkpoint), True)]
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout) and not isinstance(
            node.spout, SpoutOfRowsInMemory
        ):  # they are in the checkpoint
            places += [ProbedPlace(f"the input of spout {name!r}", path, False) for path in _inputs(node.spout)]
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, FileSink):
            places.append(ProbedPlace(f"the folder of sink {name!r}", shown_path(sink.sink.path), True))
    return places


def _inputs(spout: FileSpout) -> Iterator[str]:
    """Yields the folders of a spout, and for each local folder one of its files."""
    for path in spout.paths:
        yield from _input(path)


def _input(path: str) -> Iterator[str]:
    folder, _ = path_before_pattern(path)
    yield folder
    if "://" not in folder:
        names = (entry.path for entry in matching_entries([path]))
        yield from islice((name for name in names if not is_never_input(name) and os.path.isfile(name)), 1)


def _reason(error: Exception) -> str:
    if isinstance(error, EnvironmentMissing):  # its ``why`` does not name the missing package
        return error.what
    return str(error.why or error.what if isinstance(error, WindboltError) else error)


# Checks on an executor that can import windbolt: the topology, the user's modules, the folders.


@dataclass(frozen=True)
class ProbeRequest:
    """The driver's request to an executor."""

    unpack: Callable[[], Graph]
    """Returns the topology, as in tasks."""
    modules: tuple[str, ...]
    """Installed packages that the user's modules import at their top level."""
    places: tuple[ProbedPlace, ...]
    probe: str
    """Text that is written to these places, different in every run."""


def answer_request(request: ProbeRequest, task: int) -> dict[str, Any]:
    """Returns an executor's answer: the ``modules`` that it lacks, and the problems of places by their number."""
    lacking = [name for name in request.modules if importlib.util.find_spec(name) is None]
    if not lacking:
        request.unpack()
    return {"task": task, "lacking": lacking, "unseen": _unseen(request.places, request.probe, task)}


def _unseen(places: Sequence[ProbedPlace], probe: str, task: int) -> dict[int, str]:
    errors = {number: place.check_on_executor(probe, task) for number, place in enumerate(places)}
    return {number: error for number, error in errors.items() if error is not None}


# Describes problems of executors from their answers.


_MOST_SKEW = 60_000_000
"""Most microseconds by which a clock may differ from the driver's. Object stores refuse requests signed some minutes
off, and times in logs become confusing long before."""
_MOST_NAMED = 3
"""Most executors that an error names."""
_PYTHON_REMEDY = "give all of them the driver's environment: spark.pyspark.python, or --archives with PYSPARK_PYTHON"


@dataclass(frozen=True)
class Fault:
    """A problem of an executor."""

    host: str
    what: str
    """Continues a sentence that begins with the executor: ``has no pyarrow``."""
    why: str
    do: str


def find_faults(
    answers: Sequence[Mapping[str, Any]],
    places: Sequence[ProbedPlace],
    packages: Mapping[str, str],
    asked_between: tuple[int, int],
) -> list[Fault]:
    """Returns all faults, the most basic first. ``asked_between``: the times of the request and of the answers, by
    the driver's clock in microseconds."""
    found: list[Fault] = []
    for find in (_package_faults, _module_faults, _place_faults, _clock_faults):
        for answer in answers:
            found += find(answer, places, packages, asked_between)
    return found


def faults_error(faults: Sequence[Fault], executors: int) -> EnvironmentMissing:
    """Returns the error for these faults: the first fault, all hosts that have it, and the number of other faults."""
    first_fault = faults[0]
    hosts = list(dict.fromkeys(fault.host for fault in faults if fault.what == first_fault.what))
    others = list(dict.fromkeys(fault.what for fault in faults if fault.what != first_fault.what))
    unnamed = f" and {len(hosts) - _MOST_NAMED} more" if len(hosts) > _MOST_NAMED else ""
    names = ", ".join(hosts[:_MOST_NAMED]) + unnamed
    more = f". Besides, an executor {'; '.join(others[:_MOST_NAMED])}" if others else ""
    return EnvironmentMissing(
        f"the executor on {names} {first_fault.what}"
        if len(hosts) == 1
        else f"the executors on {names} each: {first_fault.what}",
        why=f"{first_fault.why}; {executors} executor{'s were' * (executors > 1) or ' was'} asked{more}",
        do=first_fault.do,
    )


def _package_faults(answer: Mapping[str, Any], _: Any, packages: Mapping[str, str], __: Any) -> Iterator[Fault]:
    host, python = answer["host"], answer["python"]
    for name, error in answer["missing"].items():
        yield Fault(host, f"has no {name}", f"{python}: {error}", f"install it there, or {_PYTHON_REMEDY}")
    theirs, ours = answer["versions"].get("numpy", ""), packages["numpy"]
    if theirs and theirs.partition(".")[0] != ours.partition(".")[0]:
        yield Fault(
            host,
            f"has numpy {theirs}, and the driver {ours}",
            f"{python}: arrays cannot be sent from one to the other",
            f"install the same version there, or {_PYTHON_REMEDY}",
        )


def _module_faults(answer: Mapping[str, Any], *_: Any) -> Iterator[Fault]:
    host, python = answer["host"], answer["python"]
    if answer.get("lacking"):
        names = ", ".join(answer["lacking"])
        why = f"{python}: the topology's modules import it"
        yield Fault(host, f"has no {names}", why, f"install it there, or {_PYTHON_REMEDY}")
    if "failed" in answer:
        yield Fault(
            host,
            "cannot load the topology",
            f"{python}: {answer['failed']}",
            "send modules that are imported by a computed name with --py-files, install packages there, or "
            + _PYTHON_REMEDY,
        )


def _place_faults(answer: Mapping[str, Any], places: Sequence[ProbedPlace], *_: Any) -> Iterator[Fault]:
    for number, error in sorted(answer.get("unseen", {}).items()):
        place = places[number]
        yield Fault(
            answer["host"],
            f"does not see {place.what}, {place.path}",
            error,
            "put it where all machines reach it under one name: a shared folder, or an object store such as s3://",
        )


def _clock_faults(answer: Mapping[str, Any], _: Any, __: Any, asked_between: tuple[int, int]) -> Iterator[Fault]:
    early, late = asked_between[0] - answer["clock"], answer["clock"] - asked_between[1]
    if max(early, late) > _MOST_SKEW:
        skew = max(early, late) // 1_000_000
        yield Fault(
            answer["host"],
            f"has a clock that is {skew:,} s {'behind' if early > 0 else 'ahead of'} the driver's",
            "object stores and Kerberos refuse requests from such machines, and logs cannot be compared",
            "set its clock, for example with chrony or ntpd",
        )


# Asks every executor of a cluster, before the first batch, whether it can run the topology.


_PACKAGES = {"numpy": np.__version__, "pandas": pd.__version__, "pyarrow": pa.__version__}
_ANSWER = "topologies.spark.cluster:answer_request"
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*)"[^\n]*?(?:error=\d+, )?(No such[^\n]*|Permission[^\n]*)')
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\]\s*([^\n]*)")


Probe = Callable[[Iterable[int]], Iterator[dict[str, Any]]]
"""Runs in a Spark task; yields an answer for each number."""


class Executors(Protocol):
    """The executors of a session."""

    needed_modules: NeededModules
    """The user's modules of the topology."""

    def unpacker(self) -> Callable[[], Graph]:
        """Returns a function that unpacks the topology on an executor."""
        ...

    def probe(self, probe: Probe) -> list[dict[str, Any]]:
        """Returns the answer of each executor."""
        ...


def ask_executors(executors: Executors, topology: Graph, checkpoint: str) -> None:
    """Raises EnvironmentMissing, with the problems of each executor, unless all executors can run the topology.

    Only the present executors are asked, at least one; later executors are not.
    """
    probe, places = uuid.uuid4().hex, probed_places(topology, checkpoint)
    request = ProbeRequest(
        executors.unpacker(), tuple(sorted(executors.needed_modules.installed)), tuple(places), probe
    )
    try:
        for place in places:
            place.prepare(probe)
        started = system_clock()
        answers = _answers(executors, request)
        asked_between = (started, system_clock())
        for answer in answers:
            for number, place in enumerate(places) if "unseen" in answer else ():
                if number not in answer["unseen"] and (error := place.check_answer(probe, answer["task"])) is not None:
                    answer["unseen"][number] = error
    finally:
        for place in places:
            place.clear()
    faults = find_faults(answers, places, _PACKAGES, asked_between)
    if faults:
        raise faults_error(faults, len(answers))


def _answers(executors: Executors, request: ProbeRequest) -> list[dict[str, Any]]:
    with _sending_by_value(sent_by_value, clock):
        probe = sent_by_value.probe(list(_PACKAGES), system_clock, _ANSWER, cloudpickle.dumps(request))  # type: ignore[no-untyped-call]
        try:
            return executors.probe(probe)
        except Exception as error:
            cause = error.__cause__
            raise (None if cause is None else python_not_started(str(cause))) or error from cause


@contextmanager
def _sending_by_value(*modules: Any) -> Iterator[None]:
    """Sends the functions of these modules by value, so that executors need not have the modules."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def python_not_started(text: str) -> EnvironmentMissing | None:
    """Returns the error for a Python that executors cannot start, or that differs from the driver's version."""
    missing, versions = _NO_PROGRAM.search(text), _VERSIONS.search(text)
    if missing is not None:
        return EnvironmentMissing(
            f"the executors cannot start Python: there is no {missing[1]!r} on some of them",
            why=f"{missing[2].strip()}; it is named by spark.pyspark.python or PYSPARK_PYTHON, or is the driver's",
            do="name a Python that all of them have: --conf spark.pyspark.python=python3, or send one with --archives",
        )
    if versions is not None:
        return EnvironmentMissing(
            "the executors have another version of Python than the driver",
            why=versions[1].strip(),
            do="name a Python of the driver's version, with --conf spark.pyspark.python=... or PYSPARK_PYTHON",
        )
    return None
