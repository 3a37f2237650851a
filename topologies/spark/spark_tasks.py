"""The tasks of a micro-batch on Spark, in a classic session or over Spark Connect: tasks that the driver runs itself
(decision 80), their distribution, and sending the topology and the errors of tasks."""

from __future__ import annotations

import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark import cloudpickle

from manager.storage.segment_files import FileSegments
from manager.storage.segments import Refs
from topologies.engine.batch import Context, InProcessExecutor, RunExecutor
from topologies.engine.tasks import compact, fire, take_in
from topologies.graph.graph import Graph
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.paths import shown_path
from topologies.io.pulled import PulledRanges
from topologies.io.sinks import FileSink, FunctionSink, Sink
from topologies.io.spouts import AnySpout, FrameSpout
from topologies.run.options import is_cluster
from topologies.spark.process_memory import collect_previous_run, exempt_settled_objects
from topologies.spark.shipping import (
    NeededModules,
    forget_other_modules,
    is_users,
    modules_needed_by,
    own_paths,
    ship,
    with_local_paths,
)
from topologies.spark.spark_errors import (
    FROM_SPARK,
    failure_in,
    kafka_error_in,
    passing_error_in,
    run_for_java,
    storage_error_in,
)
from windowing.bolts.bolt import failing_attribute
from windowing.errors import EnvironmentMissing, WindboltError

if TYPE_CHECKING:  # a client of Spark Connect alone lacks these
    from pyspark import SparkContext
    from pyspark.core.broadcast import Broadcast

    from topologies.spark.cluster import Probe

# Tasks that the driver runs itself, since a Spark job would take longer than they do (decision 80).


MOST_BYTES, MOST_SECTIONS = 2**24, 64
"""Limits on the input of all these tasks together: some milliseconds for one process, whatever the size of the
cluster."""
MOST_SUMS = 1 << 16
"""The limit for sums that Java has made of rows."""


def runs_in_driver(function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> bool:
    """True if the driver must run all these tasks: they read little, from files, and call only windbolt's own code.

    This holds for the sums of an AggregateBolt, and for sections that are merged. In an object store each section takes
    a request, and the requests of several tasks are better made concurrently.
    """
    if function is take_in:
        sizes: list[int] = [item.size for item in items]
        return sum(sizes) <= MOST_SUMS
    in_files = isinstance(context.store, FileSegments) and not context.store.reads_by_request
    if not in_files or function not in (fire, compact):
        return False
    bolts = {item.bolt for item in items}
    if function is fire:
        is_windbolts = all(_only_merges_sums(bolt, context.topology) for bolt in bolts)
        is_windbolts = is_windbolts and all(item.admit.sections is None for item in items)
        refs: list[Refs] = [item.state.refs for item in items]
    else:
        is_windbolts = not any(_calls_users(bolt, context.topology) for bolt in bolts)
        refs = [item.refs for item in items]
    if not is_windbolts or sum(map(len, refs)) > MOST_SECTIONS:
        return False
    return sum(ref.length for item_refs in refs for ref in item_refs) <= MOST_BYTES


def _only_merges_sums(bolt: str, topology: Graph) -> bool:
    """True if the tasks of a bolt merge sums, and their rows go to no bolt within the task."""
    if topology.windowed[bolt].partial_sums is None:
        return False
    read = {each.stream[0] for node in topology.plain.values() for each in node.inputs}
    return bolt not in read and not _calls_users(bolt, topology)


def _calls_users(bolt: str, topology: Graph) -> bool:
    """True if users' functions make the sums."""
    aggregates = getattr(topology.windowed[bolt].bolt, "aggregates", {})
    return any(getattr(each, "functions", ()) for each in aggregates.values())


# The tasks of one job: distributed over Spark's tasks, and run there.


FEW_ITEMS = 2
"""Up to this many items get a task each, however few slots there are."""


def deal_out(items: Sequence[Any], slots: int) -> list[list[Any]]:
    """Returns the items of each Spark task. They are dealt out one by one, so that neighbours, which are often similar,
    are in different tasks. There are up to two tasks for each slot, so that a slow task does not hold back many
    items."""
    count = min(len(items), 2 * slots)
    return [list(items[first::count]) for first in range(count)]


TaskItems = list[tuple[int, Any]]
"""The numbered items of one Spark task."""


def task_of(
    function: Callable[[Any, Context], Any], context: Context, unpack: Callable[[], Graph]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Returns a function over the items of one Spark task, which can be sent to another process. ``unpack``: returns
    the topology there."""
    without_topology = replace(context, topology=cast("Graph", None))

    def complete(without_topology: Context, _: Context) -> Context:
        return replace(without_topology, topology=unpack())

    def run(items: Iterable[Any]) -> Iterator[Any]:
        with_topology = run_for_java(complete, without_topology, without_topology)
        results = [run_for_java(function, item, with_topology) for item in items]
        exempt_settled_objects()
        return iter(results)

    return run


def run_numbered(run: Callable[[Iterable[Any]], Iterator[Any]], share: TaskItems) -> Iterator[tuple[int, Any]]:
    """Called in a worker: yields the results of one Spark task's items, with their numbers."""
    numbers = [number for number, _ in share]
    return zip(numbers, run(item for _, item in share), strict=True)


# Errors of tasks, from Spark's reports.


_MISSING = re.compile(
    r"ModuleNotFoundError: No module named '(windbolt|windowing|policies|manager|topologies|numpy|pandas|pyarrow)\b"
)
"""Python's error text if a worker cannot unpack a task."""


@contextmanager
def spark_failures(sent: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Turns Spark's report of a task's error into the error itself. ``sent``: the modules that executors were sent,
    with their places on this machine, which the error names."""
    try:
        yield
    except FROM_SPARK as error:
        failure = failure_in(str(error), partial(with_local_paths, sent))
        if failure is not None:
            raise failure  # noqa: B904  (its cause is the traceback of the task)
        known = kafka_error_in(str(error)) or storage_error_in(str(error)) or passing_error_in(str(error))
        if known is not None:
            raise known from error
        missing = _MISSING.search(str(error))
        if missing is not None:
            raise EnvironmentMissing(
                f"the Python of Spark's workers has no module {missing[1]!r}",
                why=f"it is named by PYSPARK_PYTHON or spark.pyspark.python, or else python3; the driver's is "
                f"{sys.executable}",
                do="let all executors have the driver's environment: set PYSPARK_PYTHON before the session is made",
            ) from error
        raise WindboltError(
            "a task failed on Spark with an unexpected error",
            why=_last_words(str(error)),
            do="see the chained error (--debug); a worker that died may have run out of memory",
        ) from error


def _last_words(text: str) -> str:
    """Returns the most informative line of Spark's long report: the last of the Python traceback, or the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("\t", " "))]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or [text])[-1 if "Traceback" in text else 0][:500]


# The topology in the form that is sent to workers.


_TOPOLOGIES: dict[str, Graph] = {}
"""In a worker: the unpacked topology, by a name that its run chose."""


def pack_topology(topology: Graph, elsewhere: Collection[str] = ()) -> bytes:
    """Returns a topology as bytes, with the user's modules of its bolts and spouts, but without modules in the
    top-level packages ``elsewhere``, which the workers can import."""
    bolts: list[Any] = [node.bolt for node in topology.plain.values()]
    bolts += [node.bolt for node in topology.windowed.values()]
    bolts += [node.spout.spout for node in topology.spouts.values() if isinstance(node.spout, PulledRanges)]
    modules = {type(bolt).__module__ for bolt in bolts} | set(_modules_of_functions(topology))
    for name in modules:
        module = sys.modules.get(name)
        if module is not None and is_users(module) and name.partition(".")[0] not in elsewhere:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        return cast("bytes", cloudpickle.dumps(for_workers(topology)))  # type: ignore[no-untyped-call]
    except Exception as error:
        holders = ((type(bolt).__name__, failing_attribute(bolt, cloudpickle.dumps)) for bolt in bolts)
        held = next((f"{name} holds{holder} what cannot be sent. " for name, holder in holders if holder), "")
        raise WindboltError(
            f"topology {topology.name!r} cannot be sent to the workers",
            why=f"{held}{type(error).__name__}: {error}",
            do="create what cannot be sent (connections, locks) in the bolt's prepare() or the spout's open(), also "
            "where functions or modules name it",
        ) from error


def _modules_of_functions(topology: Graph) -> Iterator[str]:
    """Yields the modules of users' functions and policies in bolts: rules, extractors, aggregates."""
    for node in topology.windowed.values():
        settings, aggregates = node.bolt.settings, getattr(node.bolt, "aggregates", {})
        functions: list[Any] = [getattr(settings.key_trigger, "rule", None), settings.timestamp_extractor]
        functions += [each for policy in (settings.eviction, settings.trigger) for each in type(policy).__mro__]
        for aggregate in aggregates.values():
            functions += getattr(aggregate, "functions", ())
        for function in functions:
            while isinstance(function, partial):
                function = function.func  # noqa: PLW2901
            if function is not None:
                yield getattr(function, "__module__", None) or type(function).__module__
                yield type(function).__module__


def unpack_topology(name: str, read: Callable[[], bytes], paths: Sequence[str], sent: Sequence[str] = ()) -> Graph:
    """Called in a worker: returns the topology, unpacked once per process; bolts are copied before use. ``read``:
    returns the topology as bytes."""
    if name not in _TOPOLOGIES:
        forget_other_modules(sent)
        sys.path.extend(path for path in paths if path not in sys.path and os.path.isdir(path))
        _TOPOLOGIES.clear()
        collect_previous_run()
        _TOPOLOGIES[name] = pickle.loads(read())
    return _TOPOLOGIES[name]


def for_workers(topology: Graph) -> Graph:
    """Returns the graph without the parts that only the driver needs: functions, which may hold a session, a lock or a
    connection; options of Kafka, which may contain passwords; and the Topology, which would import the runners in a
    worker."""
    spouts = {name: replace(node, spout=_spout_for_workers(node.spout)) for name, node in topology.spouts.items()}
    sinks = {name: replace(node, sink=_sink_for_workers(node.sink)) for name, node in topology.sinks.items()}
    given = {each.name: getattr(topology, each.name) for each in fields(Graph)}
    return Graph(**{**given, "spouts": spouts, "sinks": sinks})


def _spout_for_workers(spout: AnySpout) -> AnySpout:
    match spout:
        case FrameSpout():
            return replace(spout, make=_driver_only)
        case KafkaSpout():
            return replace(spout, options={})
    return spout


def _sink_for_workers(sink: Sink) -> Sink:
    match sink:
        case FunctionSink():
            return replace(sink, function=_driver_only)
        case KafkaSink():
            return replace(sink, options={})
        case FileSink():
            return replace(sink, path=shown_path(sink.path))  # workers have another working directory
    return sink


def _driver_only(*_: Any) -> Any:
    raise WindboltError("this function was called in a worker, and is the driver's")


# Runs the tasks of a micro-batch on the workers of a classic session, or in the driver if a job would take longer
# (decision 80).


_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction")
"""Java classes that PySpark looks up in each job of RDDs."""


_ROUNDS = 3
"""Number of rounds until each executor has answered, since Spark does not tell which executor a task is for."""


class TaskExecutor(RunExecutor, Protocol):
    """Runs the tasks of a run whose rows may come from Spark."""

    on_this_machine: bool
    """True if tasks see the driver's files."""

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]: ...
    def cancel(self) -> None: ...


class SparkExecutor:
    """Runs tasks as one job of the RDD API, which costs less than a planned query; the items are small. Tasks that cost
    less than a job run in the driver."""

    on_this_machine = False

    def __init__(self, context: SparkContext) -> None:
        self.spark = context
        self.name = ""
        self.topology: Broadcast[bytes] | None = None
        self.paths: list[str] = []
        self.sent: list[str] = []
        """The folders of the modules that were sent to the executors of a cluster."""
        self.needed_modules = NeededModules()
        self._here = InProcessExecutor()
        self._cluster = Cluster.of(context) if is_cluster(context.master or "") else None

    @property
    def slots(self) -> int:
        """Number of tasks into which work is now divided, since executors come and go."""
        now = self.spark.defaultParallelism
        return now if self._cluster is None else self._cluster.slots(now)

    def load(self, topology: Graph) -> None:
        """Sets the topology of the following tasks. On a cluster, its code is sent along."""
        self.close()
        _know_classes(self.spark)
        self.name = uuid.uuid4().hex
        if self._cluster is not None:
            self.needed_modules = modules_needed_by(for_workers(topology))
            self.sent = ship(self.spark, self.needed_modules.users)
        self.topology = self.spark.broadcast(pack_topology(topology, elsewhere=self.needed_modules.users))
        self.paths = own_paths()

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """Returns the results of the tasks, in the order of the items."""
        if not items:
            return []
        if runs_in_driver(function, items, context):
            return self._here.map(function, items, context)
        run = self.task(function, context)
        # With at most ``FEW_ITEMS`` items, the number of slots, which needs a call to Java, does not matter.
        shares = deal_out(list(enumerate(items)), self.slots if len(items) > FEW_ITEMS else FEW_ITEMS)

        def run_share(dealt: Iterable[TaskItems]) -> Iterator[tuple[int, Any]]:
            for share in dealt:
                yield from run_numbered(run, share)

        with spark_failures(self.needed_modules.users):
            found = dict(self.spark.parallelize(shares, len(shares)).mapPartitions(run_share).collect())
        return [found[number] for number in range(len(items))]

    def task(
        self, function: Callable[[Any, Context], Any], context: Context
    ) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """Returns a function over the items of one Spark task; it can be sent to another process."""
        return task_of(function, context, self.unpacker())

    def unpacker(self) -> Callable[[], Graph]:
        """Returns a function that unpacks the topology in a worker."""
        assert self.topology is not None, "no topology was loaded"
        return partial(unpack_topology, self.name, partial(_broadcast_value, self.topology), self.paths, self.sent)

    def probe(self, probe: Probe) -> list[dict[str, Any]]:
        """Returns the answer of each executor to a question before the first batch."""
        found: dict[str, dict[str, Any]] = {}
        topology = self.topology

        def answer_share(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
            # The request is a pickle in which PySpark finds the broadcast once, so each job needs its own function.
            _ = topology
            return probe(numbers)

        for first in range(_ROUNDS):
            count = executors_of(self.spark)
            numbers = range(first * count, (first + 1) * count)
            with spark_failures():
                for answer in self.spark.parallelize(numbers, count).mapPartitions(answer_share).collect():
                    found[answer["executor"]] = answer
            if len(found) >= executors_of(self.spark):
                break
        return list(found.values())

    def cancel(self) -> None:
        """Does nothing: Spark cancels jobs together with their query."""

    def close(self) -> None:
        """Frees the resources of the workers."""
        if self.topology is not None:
            self.topology.unpersist()


@dataclass(frozen=True)
class Cluster:
    """Settings of a cluster that decide about its slots."""

    cores_of_task: int
    grows: bool
    """True if Spark requests executors for waiting tasks (dynamic allocation)."""

    @classmethod
    def of(cls, spark: SparkContext) -> Cluster:
        """Returns the settings of a session."""
        conf = spark.getConf()
        grows = conf.get("spark.dynamicAllocation.enabled", "false")
        return cls(int(conf.get("spark.task.cpus", "1") or 1), grows == "true")

    def slots(self, cores: int) -> int:
        """Returns the number of tasks into which work is divided for this many cores: as many as can run. If that lets
        Spark request more executors, it is twice as many, so that some tasks wait."""
        return max(cores // self.cores_of_task, 1) * (2 if self.grows else 1)


def executors_of(spark: SparkContext) -> int:
    """Returns the present number of executors; Spark waits for at least one."""
    return max(len(spark._jsc.sc().statusTracker().getExecutorInfos()) - 1, 1)  # the driver is one of them


def _know_classes(context: SparkContext) -> None:
    """Looks up these classes in Java once.

    Otherwise PySpark looks them up in each job. Java then searches one package after another, and for each missing
    class all of Spark's jars: some milliseconds in each job (decision 90).
    """
    jvm: Any = context._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            setattr(jvm, name, getattr(jvm, name))


def _broadcast_value(broadcast: Broadcast[bytes]) -> bytes:
    return broadcast.value
