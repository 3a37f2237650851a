"""The runner over Spark Connect, with its executor and its sessions. This process is the driver, as in a local run;
tasks run on Spark (decision 136).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from manager.storage.segments import Ref, SegmentStore
from topologies.checkpoints.preflight import refuse_before_start, refuse_hdfs_without_host
from topologies.engine.batch import Context, InProcessExecutor
from topologies.engine.commit import EngineSinks
from topologies.engine.kafka_records import Records
from topologies.engine.librdkafka import check_options
from topologies.engine.report import BatchReport
from topologies.engine.task_data import MergedSplits, SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.file_spout import FileSpout
from topologies.local import LocalKafka, LocalRun
from topologies.page.site import asked_observers
from topologies.run.attempts import NO_OBSERVERS, Attempts, Observers, run_with_observers
from topologies.run.options import REMOTE, Engine, RunOptions, is_remote_master
from topologies.run.summary import Summary
from topologies.spark import sent_by_value
from topologies.spark.cluster import Probe, ask_executors
from topologies.spark.frames import KeepsFrames
from topologies.spark.shipping import NeededModules, archive_contents, modules_needed_by, write_archive
from topologies.spark.spark_errors import FROM_SPARK
from topologies.spark.spark_tasks import (
    FEW_ITEMS,
    deal_out,
    for_workers,
    pack_topology,
    run_numbered,
    runs_in_driver,
    spark_failures,
    task_of,
    unpack_topology,
)
from topologies.spark.tables import Appenders, tables_of_files, with_tables
from windowing.errors import CheckpointError, ConfigError, EnvironmentMissing, SinkError, SpoutError, UnreachableError

# Runs the tasks of a micro-batch on the workers of a Connect server; each task is a row of ``range(n)``.


_MANY = 1_000_000
"""Number of rows in a range that Spark divides over all its slots."""


class ConnectExecutor:
    """Runs tasks as DataFrame jobs; their items, which are small, are sent with the job."""

    def __init__(self, spark: SparkSession, slots: int | None = None) -> None:
        """``slots``: None to ask Spark."""
        self.spark = spark
        self.needed_modules = NeededModules()
        self._slots, self._here = slots, InProcessExecutor()
        self._numbers: dict[int, DataFrame] = {}
        self._topology = ""
        """The name of the topology's file, in Spark's folder of files."""
        self._folders: list[str] = []
        """The folders of the archives that were sent."""

    @property
    def slots(self) -> int:
        """Number of tasks into which work is divided: as many as Spark makes of a large range."""
        if self._slots is None:
            parts = self.spark.range(_MANY).selectExpr("spark_partition_id() AS part").distinct()
            with spark_failures():
                self._slots = max(parts.count(), 1)
        return self._slots

    def load(self, topology: Graph) -> None:
        """Sets the topology of the following tasks, which is sent to the workers with its code."""
        self.needed_modules = modules_needed_by(for_workers(topology))
        code = pack_topology(topology, elsewhere=self.needed_modules.users)
        with tempfile.TemporaryDirectory(prefix="windbolt-") as folder, spark_failures():
            self._folders = []
            for places in archive_contents(self.needed_modules.users):
                path, name = write_archive(folder, places)
                self.spark.addArtifacts(f"{path}#{name}", archive=True)
                self._folders.insert(0, name)  # windbolt's own archive comes first
            # Workers keep a topology by this name, so the name includes the content of its modules.
            digest = hashlib.sha256("\0".join(self._folders).encode() + code)
            self._topology = f"windbolt-topology-{digest.hexdigest()[:16]}"
            path = os.path.join(folder, self._topology)
            with open(path, "wb") as file:
                file.write(code)
            self.spark.addArtifacts(path, file=True)

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        """Returns the results of the tasks, in the order of the items."""
        if not items:
            return []
        if runs_in_driver(function, items, context) or any(_is_held_here(item) for item in items):
            return self._here.map(function, items, context)
        run = task_of(function, context, self.unpacker())
        shares = deal_out(list(enumerate(items)), self.slots if len(items) > FEW_ITEMS else FEW_ITEMS)
        outcomes = dict(self._results(partial(_outcomes, run), shares))
        return [outcomes[number] for number in range(len(items))]

    def frame(self, store: SegmentStore, refs: Sequence[Ref], schema: pa.Schema) -> DataFrame:
        """Returns a DataFrame with one partition per reference, which is read on each use."""
        work = cloudpickle.dumps(partial(_read_ref, store, schema))  # type: ignore[no-untyped-call]
        read = sent_by_value.rows(self._folders, work, [pickle.dumps(ref) for ref in refs])
        with spark_failures():
            return self._over_numbers(len(refs)).mapInArrow(read, from_arrow_schema(schema))

    def unpacker(self) -> Callable[[], Graph]:
        """Returns a function that unpacks the topology in a worker."""
        assert self._topology, "no topology was loaded"
        return partial(unpack_topology, self._topology, partial(_read_sent_file, self._topology), [], self._folders)

    def probe(self, probe: Probe) -> list[dict[str, Any]]:
        """Returns the answer of each executor that gets a task; there are two tasks for each slot."""
        numbers = list(range(2 * self.slots))
        answers = self._results(lambda share: list(probe(share)), [[number] for number in numbers])
        return list({answer["executor"]: answer for answer in answers}.values())

    def close(self) -> None:
        """Does nothing: everything that was sent ends with the session."""

    def _results(self, work: Callable[[Any], list[Any]], shares: Sequence[Any]) -> Iterator[Any]:
        """Yields the result of ``work`` in a worker for each of ``shares``, in order."""
        code = cloudpickle.dumps(_with_pickles(work))  # type: ignore[no-untyped-call]
        run = sent_by_value.rows(self._folders, code, [pickle.dumps(share) for share in shares])
        with spark_failures(self.needed_modules.users):
            frame = self._over_numbers(len(shares)).mapInArrow(run, "output binary")
            rows = frame.toArrow().column("output").to_pylist()
        for row in rows:
            yield from pickle.loads(row)

    def _over_numbers(self, count: int) -> DataFrame:
        """Returns a DataFrame with a row for each of ``count`` tasks. The frame is kept, because each new frame would
        request its columns from the server."""
        if count not in self._numbers:
            self._numbers[count] = self.spark.range(0, count, 1, count)
        return self._numbers[count]


def _is_held_here(item: Any) -> bool:
    """True for records that this process has read from Kafka: sending them would cost more than processing them
    here."""
    match item:
        case MergedSplits(splits):
            return any(map(_is_held_here, splits))
        case _:
            return isinstance(item, Records)


def _with_pickles(work: Callable[[Any], list[Any]]) -> Callable[[bytes], Iterator[pa.RecordBatch]]:
    """Returns the function in the form that is sent: from bytes to a row of bytes. It refers to nothing of windbolt,
    which executors may lack when they are asked for their packages."""

    def run_on_pickle(share: bytes) -> Iterator[pa.RecordBatch]:
        import pickle

        import pyarrow as pa

        output = pa.array([pickle.dumps(work(pickle.loads(share)))], pa.binary())
        yield pa.RecordBatch.from_arrays([output], ["output"])

    return run_on_pickle


# Functions that run in a worker.


def _outcomes(run: Callable[[Iterable[Any]], Iterator[Any]], share: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return list(run_numbered(run, share))


def _read_ref(store: SegmentStore, schema: pa.Schema, ref: bytes) -> Iterator[pa.RecordBatch]:
    yield from store.read(pickle.loads(ref)).cast(schema).to_batches()


def _read_sent_file(name: str) -> bytes:
    from pyspark import SparkFiles  # a client of Spark Connect alone has no SparkFiles

    with open(SparkFiles.get(name), "rb") as file:
        return file.read()


# Opening sessions of Spark Connect.


SLOTS = "spark.windbolt.slots"
"""Setting for the number of tasks into which work is divided."""
_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark's variable that makes sessions of this process use Connect."""
_MOST_SECONDS = 10
"""Seconds within which a server must accept a connection."""


def slots_of(conf: Mapping[str, str]) -> int | None:
    """Returns the number of slots in a setting; None without the setting. Raises ConfigError if it is not a number."""
    slots = conf.get(SLOTS)
    if slots is None:
        return None
    if not (slots.isascii() and slots.isdigit() and int(slots)):
        raise ConfigError(
            f"{SLOTS} is {slots!r}",
            why="it is the number of tasks that run at the same time",
            do="give a number from 1 on, or leave it out: Spark is asked then",
        )
    return int(slots)


@contextmanager
def connect_session(spark: Any, master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yields the given session, or a new session, which is closed at the end of the run.

    Raises EnvironmentMissing if a package is missing here, UnreachableError if the server does not respond. If the
    given session has ended, the error is not transient.
    """
    if spark is not None:
        try:
            yield spark
        except (UnreachableError, ValueError, SinkError, SpoutError) as error:  # ValueError: the channel was closed
            if not spark.is_stopped:
                if not isinstance(error, SinkError | SpoutError):
                    _leave_at_exit(spark)
                raise
            raise UnreachableError(
                "the Spark session of the run has ended",
                why="it was stopped, or its server was started again and knows it no more",
                do="make a new session and start again: the run continues from its checkpoint",
            ) from error
        return
    session = _open_session(master or os.environ[REMOTE], conf)
    try:
        with _functions_over_connect():
            yield session
    finally:
        _leave(session)
        with suppress(*FROM_SPARK):
            session.stop()


_RUNS_OVER_CONNECT: list[object] = []
"""An entry for each present run with a session of its own. While there are any, PySpark's variable is set."""
_MODE_LOCK = threading.Lock()


@contextmanager
def _functions_over_connect() -> Iterator[None]:
    """Makes pyspark.sql.functions work over Connect in users' functions for sinks and DataFrames."""
    this_run = object()
    with _MODE_LOCK:
        is_users = not _RUNS_OVER_CONNECT and _MODE in os.environ
        if not is_users:
            _RUNS_OVER_CONNECT.append(this_run)
            os.environ[_MODE] = "1"
    try:
        yield
    finally:
        with _MODE_LOCK:
            if not is_users:
                _RUNS_OVER_CONNECT.remove(this_run)
                if not _RUNS_OVER_CONNECT:
                    os.environ.pop(_MODE, None)


def _open_session(address: str, conf: Mapping[str, str]) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise EnvironmentMissing(
            "a package for Spark Connect is missing",
            why=str(error).strip().split("\n", 1)[0],
            do="pip install 'windbolt[connect]'",
        ) from error
    _reach(address)
    builder = SparkSession.builder.remote(address)
    for name, value in conf.items():
        if name not in (SLOTS, "spark.master"):
            builder = builder.config(name, value)
    try:
        session: SparkSession = builder.create()
        _ = session.version
    except FROM_SPARK as error:
        raise _no_answer(address, str(error)) from error
    return session


def _reach(address: str) -> None:
    """Raises UnreachableError if no server listens at the address, because Spark's client would try for ten minutes."""
    if not is_remote_master(address):
        return  # local[2]: PySpark starts a server itself
    try:
        place = urlsplit(address.partition(";")[0])
        host, port = place.hostname or "localhost", place.port or 15002
    except ValueError as error:
        raise ConfigError(
            f"{_without_parameters(address)!r} is no address", why=str(error), do="give one such as sc://HOST:15002"
        ) from error
    try:
        socket.create_connection((host, port), _MOST_SECONDS).close()
    except OSError as error:
        raise _no_answer(address, str(error)) from error


_WITHOUT_SERVER: WeakSet[Any] = WeakSet()
"""Users' sessions whose server did not respond."""


def _leave_at_exit(session: SparkSession) -> None:
    """Closes the session like ``_leave`` at the end of the process, however many attempts of a run have failed.

    PySpark also sends requests from threads, for which Python waits before it calls ``atexit`` functions. So this is
    registered earlier, in the way of ``concurrent.futures``, which has no public name.
    """
    if not _WITHOUT_SERVER:
        getattr(threading, "_register_atexit", atexit.register)(_leave_all)
    _WITHOUT_SERVER.add(session)


def _leave_all() -> None:
    for session in list(_WITHOUT_SERVER):
        _leave(session)


def _leave(session: SparkSession) -> None:
    """Closes the client of a session whose server has ended. The client would try for 20 minutes to end the session
    there."""
    endpoint = getattr(session.client._builder, "endpoint", None)
    if endpoint is None:
        return  # another kind of channel
    try:
        _reach(f"sc://{endpoint}")
    except UnreachableError:
        session.client.close()


def _no_answer(address: str, why: str) -> UnreachableError:
    return UnreachableError(
        f"the Spark Connect server {_without_parameters(address)} does not answer",
        why=why.strip().split("\n", 1)[0][:300],
        do="see that it runs, and that its address is right: sc://HOST:15002",
        transient=True,
    )


def _without_parameters(address: str) -> str:
    """Returns the address without its parameters, one of which may be a token."""
    return address.partition(";")[0].rstrip("/")


# The run: this process is the driver, as in a local run.


def run_over_connect(
    topology: Graph, options: RunOptions, *, master: str | None, conf: Mapping[str, str], spark: SparkSession | None
) -> Summary:
    """Runs a topology over Spark Connect; arguments and errors are those of ``run_on_spark``."""
    refuse_over_connect(topology)
    check_options(topology)
    slots = slots_of(conf)

    def run(options: RunOptions, observers: Observers, attempts: Attempts) -> Summary:
        refuse_before_start(topology, options)
        with connect_session(spark, master, conf) as session:
            with_files = with_tables(topology, session)
            with ConnectRun(session, with_files, options, observers, attempts, slots=slots) as over_connect:
                over_connect.tables = tables_of_files(topology, with_files)
                return over_connect.run()

    return run_with_observers(options, asked_observers(topology, options), run)


def refuse_over_connect(topology: Graph) -> None:
    """Raises ConfigError for features that do not work over Connect."""
    for name, node in topology.spouts.items():
        if isinstance(node.spout, FileSpout):
            why = "files are noted by the name of their host, and Spark Connect does not tell fs.defaultFS"
            refuse_hdfs_without_host(name, node.spout, why)


class ConnectFrames:
    """Spark's part in sinks, over Connect; this process writes to Kafka."""

    def __init__(self, executor: ConnectExecutor, kafka: LocalKafka) -> None:
        self._executor, self._kafka = executor, kafka
        self._tables = Appenders(cast("Any", executor.spark))

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> DataFrame:
        """Returns the rows as a DataFrame of the session, for a user's function."""
        return self._executor.frame(store, refs, schema)

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Writes rows to Kafka, and waits until they are written."""
        self._kafka.send(node, batch, sink_rows, store)

    def append(self, node: SinkNode, batch: SinkBatch, refs: list[Ref], store: SegmentStore) -> None:
        """Appends rows to a table, unless an earlier attempt of the batch has done so."""
        self._tables.append(node, batch, self.frame(store, refs, node.schema), refs)


class ConnectRun(KeepsFrames, LocalRun):
    """A run of a topology on a checkpoint: this process cuts batches, and Spark runs their tasks."""

    engine = Engine.SPARK
    executor: ConnectExecutor

    def __init__(
        self,
        spark: SparkSession,
        topology: Graph,
        options: RunOptions,
        observers: Observers = NO_OBSERVERS,
        attempts: Attempts | None = None,
        *,
        slots: int | None = None,
    ) -> None:
        self.spark, self._slots = spark, slots
        self.tables: list[str] = []
        """The tables to whose folders sinks write files, because Spark caches information about them."""
        super().__init__(topology, options, observers, attempts)

    def _begin(self, resources: ExitStack) -> None:
        self.executor = ConnectExecutor(self.spark, self._slots)

    def _must_keep(self, name: str) -> bool:
        half = self.halves.spark_checkpoint
        if (half.offsets() or half.names("sources")) and not self._was_kept(name):
            raise CheckpointError(
                f"spout {name!r} is a Spark DataFrame, and the checkpoint was begun in a classic session",
                why="there Spark's query over all input has noted where it was read; a query over it alone, which "
                "Spark Connect needs, would read it from its beginning",
                do="go on in a classic session, or start with a new checkpoint folder (which reads all input again)",
            )
        return True

    def _engine_sinks(self) -> EngineSinks:
        return ConnectFrames(self.executor, self.kafka)

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = super()._open_source()
        ask_executors(self.executor, self.topology, self.halves.path)
        return found

    def _note(self, query: str | None, report: BatchReport) -> None:
        super()._note(query, report)
        for table in self.tables:
            self.spark.catalog.refreshTable(table)
