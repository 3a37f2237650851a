"""Kafka without Java, through librdkafka (package confluent-kafka): settings, errors, requests about topics, and
reading and writing in local runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import datetime
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.storage.segments import SegmentStore
from topologies.engine.kafka_records import (
    MILLISECONDS,
    UNKNOWN_ID,
    Admin,
    AdminOf,
    OffsetRange,
    Place,
    Records,
    TopicInfo,
    deleted_unread,
    ends_earlier,
    missing_topics,
    naming,
    no_answer,
    no_partition,
    no_topic,
    not_delivered,
    outgoing,
    since_1970,
    too_large,
)
from topologies.engine.task_data import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.kafka import (
    FIRST,
    READING,
    RECORDS_PER_BATCH,
    WRITING,
    KafkaSink,
    KafkaSpout,
    kafka_settings,
    librdkafka_settings,
    matching,
    may_lose,
    milliseconds,
    redirect_missing,
    with_names_of_java,
)
from topologies.io.topics.declared import RECORD
from topologies.io.topics.encode import encode
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError, WindboltError

# The package, its settings and its errors.


_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which patterns do not match."""
_PASSING = (
    "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "NOT_CONTROLLER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE",
    "_FATAL", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",  # of a producer; the next run has a new one
)  # fmt: skip
"""Errors that may pass by themselves, by librdkafka's names."""
NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
_PAUSE = 0.2
"""Seconds between two requests to brokers that do not respond."""


def need_confluent(what: str) -> None:
    """Raises EnvironmentMissing if the package is missing; ``what``: the part that needs it."""
    try:
        confluent()
    except ImportError as error:
        raise EnvironmentMissing(
            f"Kafka in a local run: {what}, and the package confluent-kafka is missing",
            why="without Spark, Kafka is read and written through that package",
            do="pip install 'windbolt[kafka]'; or run on Spark, which has its own connector",
        ) from error


def has_confluent() -> bool:
    """True if the package is installed."""
    try:
        confluent()
    except ImportError:
        return False
    return True


def check_options(topology: Graph) -> None:
    """Raises EnvironmentMissing if the topology names Kafka and the package is missing, and ConfigError for options
    that a local run or librdkafka does not support. No broker is contacted."""
    for name, node in topology.spouts.items():
        if isinstance(node.spout, KafkaSpout):
            need_confluent(f"spout {name!r} reads it")
            check_spout_options(name, node.spout)
    for name, sink in topology.sinks.items():
        if isinstance(sink.sink, KafkaSink):
            need_confluent(f"sink {name!r} writes it")
            whose = f"sink {name!r}"
            made("Producer", whose, writing_settings(whose, sink.sink.servers, sink.sink.options))


def check_spout_options(name: str, spout: KafkaSpout) -> None:
    """Raises ConfigError for options that a local run or librdkafka does not support."""
    whose = f"spout {name!r}"
    made("Consumer", whose, reading_settings(whose, spout.servers, spout.options))


def confluent() -> ModuleType:
    """Returns the package. Raises ImportError if it is missing."""
    import confluent_kafka

    return confluent_kafka


def _admin_module() -> ModuleType:
    import confluent_kafka.admin

    return confluent_kafka.admin


_READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # reports the end, so that only gaps of transactions and compaction remain
}
_LARGEST = 1_000_000
"""librdkafka's default for a producer's largest record, in bytes."""
_ORDERLY = {
    "enable.idempotence": True,
    # With two concurrent requests, a broker that has just made a topic may refuse the first and accept the second as
    # the producer's first. Then the first request is lost but reported as delivered (KAFKA-15591).
    "max.in.flight.requests.per.connection": 1,
    "message.max.bytes": 1_048_576,  # as in Java's producer
    "partitioner": "murmur2_random",  # puts a key into the same partition as Java's producer
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
}


def reading_settings(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the settings of a consumer from users' ``options``. Raises ConfigError."""
    given = settings_for(whose, servers, {**READING, **options})
    # Even if much has been fetched, the next request is not delayed for a whole second. Partitions that are read from
    # another position wait for the request that is under way.
    waiting = {"fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 100, "isolation.level": "read_uncommitted"}
    least = str(given.get("fetch.max.bytes", ""))
    if least.isdigit() and int(least) < _LARGEST:  # else it refuses a record of a producer's largest size
        waiting["message.max.bytes"] = least
    return {**waiting, **given, **_READING}


def writing_settings(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the settings of a producer from users' ``options``. Raises ConfigError."""
    options = {**WRITING, **options}
    given = settings_for(whose, servers, options)
    known = milliseconds(options, "kafka.max.block.ms")
    own = {**_ORDERLY, "topic.metadata.propagation.max.ms": known}
    # As Java's producer, which then is idempotent only if that is set too.
    if given.get("acks", "all") not in ("all", "-1") or given.get("retries") == "0":
        own["enable.idempotence"] = False
    return {**own, **given, "delivery.report.only.error": True}


def settings_for(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    try:
        own = librdkafka_settings(options)
    except ConfigError as error:
        raise ConfigError(f"{whose}: {error.what}", why=error.why, do=error.do) from None
    # librdkafka would print to standard error that a broker is away; the important facts are in the errors.
    return {"log_level": 0, "client.id": "windbolt", **own, "bootstrap.servers": servers}


def made(kind: str, whose: str, settings: dict[str, Any]) -> Any:
    """Returns a client. Raises ConfigError for settings that librdkafka refuses; the text has the names of options,
    without values."""
    make = _admin_module().AdminClient if kind == "AdminClient" else getattr(confluent(), kind)
    if kind == "Consumer":
        settings = {"group.id": "windbolt", **settings}
    try:
        return make(settings)
    except confluent().KafkaException as error:
        raise ConfigError(
            f"{whose}: librdkafka does not take its options",
            why=with_names_of_java(error.args[0].str().strip()),
            do="correct them, or leave them out for local runs: those of Java's clients that librdkafka has under "
            "another name, or not at all, are in docs/kafka.md",
        ) from None


def is_passing(error: Any) -> bool:
    return error.name() in _PASSING or error.retriable()


# Requests about topics.


class LibrdkafkaAdmin(Admin):
    """librdkafka's client for requests; its errors are KafkaException."""

    def __init__(self, client: Any, seconds: float, errors: Sequence[Any]) -> None:
        """``seconds``: timeout for a response. ``errors``: errors of connections."""
        self._client, self.seconds, self.errors = client, seconds, errors

    def topics(self) -> set[str]:
        return set(self._client.list_topics(timeout=self.seconds).topics) - _INTERNAL

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        if not topics:
            return {}
        asked = self._client.describe_topics(confluent().TopicCollection(list(topics)), request_timeout=self.seconds)
        descriptions = {topic: answer.result() for topic, answer in asked.items()}
        return {topic: TopicInfo(_id(each.topic_id), len(each.partitions)) for topic, each in descriptions.items()}

    def ends(self, places: Collection[Place], *, first: bool = False, committed: bool = False) -> dict[Place, int]:
        """Returns the ends of partitions; ``committed``: only up to the first open transaction."""
        spec = _admin_module().OffsetSpec
        return self._offsets(dict.fromkeys(places, spec.earliest() if first else spec.latest()), committed=committed)

    def at(self, places: Collection[Place], moment: int, *, committed: bool = False) -> dict[Place, int]:
        """Returns, for each partition, the offset of the first record with this timestamp in milliseconds, or a later
        one; -1 if there is none. ``committed``: as for ``ends``."""
        spec = _admin_module().OffsetSpec.for_timestamp(moment)
        return self._offsets(dict.fromkeys(places, spec), committed=committed)

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        configs = self._configs("TOPIC", topics)
        limits = {topic: entries.get("max.message.bytes") for topic, entries in configs.items()}
        return {topic: int(limit) for topic, limit in limits.items() if limit is not None}

    def makes_topics(self) -> bool:
        broker = str(next(iter(self._client.list_topics(timeout=self.seconds).brokers)))
        return str(self._configs("BROKER", [broker]).get(broker, {}).get("auto.create.topics.enable")) != "false"

    def poll(self) -> None:
        """Lets librdkafka report events of its connections."""
        self._client.poll(0)

    def _offsets(self, asked: Mapping[Place, Any], *, committed: bool = False) -> dict[Place, int]:
        if not asked:
            return {}
        module = confluent()
        level = module.IsolationLevel.READ_COMMITTED if committed else module.IsolationLevel.READ_UNCOMMITTED
        request = {module.TopicPartition(*place): spec for place, spec in asked.items()}
        answers: Mapping[Any, Future[Any]] = self._client.list_offsets(
            request, isolation_level=level, request_timeout=self.seconds
        )
        return {(place.topic, place.partition): int(answer.result().offset) for place, answer in answers.items()}

    def _configs(self, kind: str, names: Collection[str]) -> dict[str, dict[str, Any]]:
        resource = _admin_module().ConfigResource
        asked = {resource(kind, name): name for name in names}
        answers = self._client.describe_configs(list(asked), request_timeout=self.seconds)
        try:
            return {
                asked[each]: {name: entry.value for name, entry in answer.result().items()}
                for each, answer in answers.items()
            }
        except confluent().KafkaException as error:  # not every user may query the settings
            if is_passing(error.args[0]):
                raise
            return {}


def _id(found: Any) -> str:
    """Returns an id in Java's notation."""
    return UNKNOWN_ID if found is None else str(found).replace("+", "-").replace("/", "_")


class Admins:
    """The clients of a run, which stay connected."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], LibrdkafkaAdmin] = {}

    @contextmanager
    def of(self, whose: str, servers: str, options: Mapping[str, str]) -> Iterator[LibrdkafkaAdmin]:
        """Yields a client. Raises UnreachableError if no server responds."""
        admin = self._client(whose, servers, options)
        try:
            yield admin
        except confluent().KafkaException as raised:
            admin.poll()
            error, passing = raised.args[0], is_passing(raised.args[0])
            last = admin.errors[-1].str() if admin.errors else ""
            why = error.str() if not last or last in error.str() else f"{error.str()}; {last}"
            raise no_answer(whose, servers, why, transient=passing) from None

    def retried(
        self, whose: str, servers: str, options: Mapping[str, str], ask: Callable[[LibrdkafkaAdmin], Any]
    ) -> Any:
        """Returns the result of a request, which is repeated while brokers are away, for as long as Spark's connector
        does."""
        seconds = 3 * milliseconds({**READING, **options}, "kafka.default.api.timeout.ms") / 1000
        deadline = time.monotonic() + seconds
        while True:
            try:
                with self.of(whose, servers, options) as admin:
                    return ask(admin)
            except UnreachableError as error:
                if not error.transient or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)

    def _client(self, whose: str, servers: str, options: Mapping[str, str]) -> LibrdkafkaAdmin:
        key = (servers, *sorted(options.items()))
        if key not in self._open:
            first = {**FIRST, **kafka_settings(options)}
            errors: deque[Any] = deque(maxlen=1)
            settings = settings_for(whose, servers, {name: each for name, each in options.items() if _is_kafkas(name)})
            settings["socket.timeout.ms"] = milliseconds(first, "request.timeout.ms")
            settings["error_cb"] = errors.append
            client = made("AdminClient", whose, settings)
            self._open[key] = LibrdkafkaAdmin(client, milliseconds(first, "default.api.timeout.ms") / 1000, errors)
        return self._open[key]


def _is_kafkas(name: str) -> bool:
    return name.startswith("kafka.")


# The part of a spout's topics that a batch reads, planned as Spark's connector does.


Ends = dict[Place, int]
"""For each partition, the offset after the last record of any batch so far."""


class Topics:
    """The topics of a spout during a run."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        """Raises ConfigError for a pattern that Python does not support."""
        self.name, self.spout, self._admins = name, spout, admins
        self.latest: Ends = {}
        """The end of each partition at the last request."""
        self._committed = kafka_settings(READING, spout.options).get("isolation.level") == "read_committed"

    def first(self) -> Ends:
        """Returns the offsets where a new run begins."""
        return dict(self._ask(self._first))

    def all_batches(self, before: Ends) -> Iterator[tuple[Ends, list[str]]]:
        """Yields the ends of each batch up to the present end of the topics, with messages for the user."""
        until, complaints = self._until(before)
        while True:
            ends = self._limited(before, until)
            yield ends, complaints
            if ends == until:
                return
            before, complaints = ends, []

    def next_batch(self, before: Ends) -> tuple[Ends, list[str]]:
        """Returns the ends of the next batch, or ``before`` if there are no new records; and messages for the user."""
        until, complaints = self._until(before)
        return self._limited(before, until), complaints

    def _until(self, before: Ends) -> tuple[Ends, list[str]]:
        """Returns the present ends, and messages about deleted topics and records. Raises DataError if the spout must
        not lose any."""
        self.latest = latest = dict(self._ask(self._latest))
        losing, complaints, gone = may_lose(self.spout.options), list[str](), dict[str, list[int]]()
        for topic, partition in sorted(before.keys() - latest.keys()):
            gone.setdefault(topic, []).append(partition)
        if gone and not losing:
            topic, numbers = next(iter(gone.items()))
            raise _of_spout(self.name, deleted_unread(f"topic {topic!r} has no partition {numbers[0]} any more"))
        for topic, numbers in gone.items():
            those = f"partition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
            complaints.append(f"{self.name}: topic {topic}, {those}: deleted; what was not read of it is lost")
        back = [place for place, end in sorted(before.items()) if latest.get(place, end) < end]
        if back and not losing:
            topic, partition = back[0]
            moved = f"partition {partition} of topic {topic!r} ended at {before[back[0]]}, and ends at "
            raise _of_spout(self.name, ends_earlier(f"{moved}{latest[back[0]]} now"))
        for topic, partition in back:
            complaints.append(
                f"{self.name}: topic {topic}, partition {partition}: it ends at offset {latest[topic, partition]}, and "
                f"was read up to {before[topic, partition]}; what is new before that is not read"
            )
        return latest, complaints

    def _limited(self, before: Ends, until: Ends) -> Ends:
        """Returns the ends of a batch of at most as many records as the spout allows. Partitions share the limit in
        proportion to their waiting records, with the arithmetic of Spark's connector."""
        limit = self.spout.records_per_batch or RECORDS_PER_BATCH
        waiting = {place: size for place, end in until.items() if (size := end - before.get(place, 0)) > 0}
        total = sum(waiting.values())
        ends = dict(until)
        for place, size in waiting.items():
            share = limit * (size / total)
            number = -int(-share // 1) if share < 1 else int(share)
            ends[place] = min(until[place], before.get(place, 0) + number)
        return ends

    def _ask(self, request: Callable[[LibrdkafkaAdmin], Ends]) -> Ends:
        spout = self.spout
        found: Ends = self._admins.retried(f"spout {self.name!r}", spout.servers, spout.options, request)
        return found

    def _first(self, admin: LibrdkafkaAdmin) -> Ends:
        places, starting = self._places(admin), self.spout.starting
        match starting:
            case "earliest":
                return admin.ends(places, first=True)
            case "latest":
                return self._present(admin, places)
            case datetime():
                first = admin.at(places, since_1970(starting), committed=self._committed)
                ends = self._present(admin, [place for place, offset in first.items() if offset < 0])
                return first | ends
            case offsets:
                assert not isinstance(offsets, str)
                given = {(topic, number): at for topic in offsets for number, at in offsets[topic].items()}
                return admin.ends([place for place in places if place not in given], first=True) | given

    def _latest(self, admin: LibrdkafkaAdmin) -> Ends:
        return self._present(admin, self._places(admin))

    def _present(self, admin: LibrdkafkaAdmin, places: Collection[Place]) -> Ends:
        return admin.ends(places, committed=self._committed)

    def _places(self, admin: LibrdkafkaAdmin) -> list[Place]:
        existing = admin.topics()
        wanted = existing & {*self.spout.topics, *matching(self.spout.pattern, existing)}
        topics = admin.describe(wanted)
        return [(topic, number) for topic in sorted(topics) for number in range(topics[topic].partitions)]


def _of_spout(name: str, error: DataError) -> DataError:
    return DataError(f"spout {name!r}: {error.what}", why=error.why, do=error.do)


# Reading ranges of offsets.


_POLL = 0.1
"""Seconds to wait for the next records, or for acknowledgements of records that were sent."""
_AT_ONCE = 10_000
"""Records that are exchanged with librdkafka in one call."""
_AHEAD = 50_000
"""Records of a partition beyond the current range; with more, fetching pauses."""


class RangeReader:
    """A consumer of a spout's topics. It stays connected between batches, and keeps records beyond the end of a
    batch."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        self._name, self._spout, self._admins = name, spout, admins
        self._schema = pa.schema(
            [each.with_type(MILLISECONDS) if each.name == "timestamp" else each for each in spout.record]
        )
        options = {**READING, **spout.options}
        self._patience = milliseconds(options, "kafkaConsumer.pollTimeoutMs") / 1000
        self._errors: deque[Any] = deque(maxlen=1)
        self._consumer: Any = None
        self._partitions: dict[Place, _Partition] = {}

    def read(self, ranges: Iterable[OffsetRange]) -> tuple[list[Records], list[str]]:
        """Returns the records of the non-empty ranges, in order of topic and partition, and messages about deleted
        records. Raises DataError if the spout must not lose any, UnreachableError if no record has come for long."""
        wanted = {(each.topic, each.partition): each for each in ranges}
        if not wanted:
            return [], []
        complaints: list[str] = []
        self._go_to(wanted)
        last = time.monotonic()
        while unread := [place for place, each in wanted.items() if self._partitions[place].reached < each.end]:
            messages = self._consumer.consume(1, _POLL)
            messages += self._consumer.consume(_AT_ONCE, 0) if messages else []
            if self._take(messages, wanted, complaints):
                last = time.monotonic()
            elif time.monotonic() - last > self._patience:
                raise self._silent(wanted[unread[0]])
        return [self._cut(wanted[place]) for place in sorted(wanted) if self._has_records(wanted[place])], complaints

    def close(self) -> None:
        """Disconnects."""
        consumer, self._consumer, self._partitions = self._consumer, None, {}
        if consumer is not None:
            consumer.close()

    def _go_to(self, wanted: Mapping[Place, OffsetRange]) -> None:
        """Fetches records from the starts of these ranges."""
        here = self._partitions
        if self._consumer is not None and all(
            place in here and here[place].at == each.start for place, each in wanted.items()
        ):
            paused = [place for place in wanted if here[place].paused]
            for place in paused:
                here[place].paused = False
            if paused:
                self._consumer.resume(self._named(paused))
            return
        if self._consumer is None:
            whose = f"spout {self._name!r}"
            settings = reading_settings(whose, self._spout.servers, self._spout.options)
            self._consumer = made("Consumer", whose, {**settings, "error_cb": self._errors.append})
        for place in here.keys() | wanted.keys():
            start = wanted[place].start if place in wanted else here[place].at
            here[place] = _Partition(start, start)
        self._assign()

    def _assign(self) -> None:
        """Fetches records from the present position of each partition."""
        places = self._partitions.items()
        self._consumer.assign([confluent().TopicPartition(*place, each.reached) for place, each in places])
        paused = [place for place, each in places if each.paused]
        for place in paused:
            self._partitions[place].paused = False
        if paused:
            self._consumer.resume(self._named(paused))

    def _take(self, messages: Sequence[Any], wanted: Mapping[Place, OffsetRange], complaints: list[str]) -> bool:
        """Keeps the messages; returns True if there was progress."""
        by_place: dict[Place, list[Any]] = {}
        events: list[Any] = []
        for message in messages:
            if message.error() is None:
                by_place.setdefault((message.topic(), message.partition()), []).append(message)
            else:
                events.append(message)
        progress = False
        for place, those in by_place.items():
            partition = self._partitions.get(place)
            if partition is None:
                continue
            partition.add(_table(place, those, self._schema))
            progress = True
            if place not in wanted or partition.reached >= wanted[place].end:
                self._hold_back(place, partition)
        for event in events:  # after the records, which precede a partition's end
            progress |= self._take_event(event, wanted, complaints)
        return progress

    def _hold_back(self, place: Place, partition: _Partition) -> None:
        if partition.rows > _AHEAD and not partition.paused:
            partition.paused = True
            self._consumer.pause(self._named([place]))

    def _take_event(self, message: Any, wanted: Mapping[Place, OffsetRange], complaints: list[str]) -> bool:
        """Handles the end of a partition, or an error; returns True if that was progress."""
        error, place = message.error(), (message.topic(), message.partition())
        partition = self._partitions.get(place)
        if partition is None:
            self._errors.append(error)
            return False
        match error.name():
            case "_PARTITION_EOF":
                partition.reached = max(partition.reached, message.offset())
            case "_AUTO_OFFSET_RESET" | "OFFSET_OUT_OF_RANGE":
                partition.out_of_range = True
            case name if name in NO_TOPIC:
                raise _of_spout(self._name, deleted_unread(f"topic {place[0]!r} has no partition {place[1]} any more"))
            case _:
                self._errors.append(error)
                return False
        if place not in wanted:
            return False
        if partition.reached < wanted[place].end:
            return self._skip_deleted(partition, wanted[place], complaints)
        return True

    def _skip_deleted(self, partition: _Partition, wanted: OffsetRange, complaints: list[str]) -> bool:
        """Skips deleted records, if a partition begins after them or ends before them; returns True if there were
        any."""
        place, spout, at = (wanted.topic, wanted.partition), self._spout, partition.reached
        first, end = self._admins.retried(
            f"spout {self._name!r}", spout.servers, spout.options, lambda admin: _bounds(admin, place)
        )
        if end < wanted.end:  # false if a lagging replica has responded
            moved = f"partition {place[1]} of topic {place[0]!r} was to be read up to {wanted.end}, and ends at {end}"
            error, gone, go_on = ends_earlier(moved), wanted.end - max(at, end), wanted.end
        elif partition.out_of_range and first > at:
            gone = min(first, wanted.end) - at
            where = f"topic {place[0]!r}, partition {place[1]}: {gone:,} records from offset {at} on are gone"
            error, go_on = deleted_unread(where), max(first, at)
        else:
            return False
        if not may_lose(spout.options):
            raise _of_spout(self._name, error)
        lost_from = wanted.end - gone if go_on == wanted.end else at
        complaints.append(
            f"{self._name}: topic {place[0]}, partition {place[1]}: {gone:,} records from offset {lost_from} on were "
            "deleted before they were read"
        )
        partition.reached, partition.out_of_range = go_on, False
        self._assign()
        return True

    def _has_records(self, wanted: OffsetRange) -> bool:
        """True if a range has records; an empty range means that its partition is at its end."""
        partition = self._partitions[wanted.topic, wanted.partition]
        if any(table.column("offset")[0].as_py() < wanted.end for table in partition.tables):
            return True
        partition.at = wanted.end
        return False

    def _cut(self, wanted: OffsetRange) -> Records:
        partition = self._partitions[wanted.topic, wanted.partition]
        return Records(self._name, partition.take(wanted.end))

    def _named(self, places: Iterable[Place]) -> list[Any]:
        return [confluent().TopicPartition(*place) for place in places]

    def _silent(self, wanted: OffsetRange) -> UnreachableError:
        what = f"no record of topic {wanted.topic!r}, partition {wanted.partition}, came for {self._patience:g} seconds"
        last = f"; {self._errors[-1].str()}" if self._errors else ""
        self.close()
        return no_answer(f"spout {self._name!r}", self._spout.servers, f"{what}{last}", transient=True)


def _bounds(admin: LibrdkafkaAdmin, place: Place) -> tuple[int, int]:
    """Returns the offset of a partition's first record, and the offset after its last record."""
    return admin.ends([place], first=True)[place], admin.ends([place])[place]


class _Partition:
    """A partition that is being read."""

    def __init__(self, at: int, reached: int) -> None:
        self.at = at
        """The expected start of the next range."""
        self.reached = reached
        """All records before this offset have come."""
        self.tables: list[pa.Table] = []
        self.paused = False
        self.out_of_range = False
        """True if the broker does not have the record at offset ``reached``."""

    @property
    def rows(self) -> int:
        """Number of records that no range has taken."""
        return sum(len(table) for table in self.tables)

    def add(self, table: pa.Table) -> None:
        """Keeps further records; some may be repeated, if the consumer was paused."""
        offsets = table.column("offset").to_numpy()
        known = int(np.searchsorted(offsets, self.reached))
        if known < len(offsets):
            self.tables.append(table.slice(known))
            self.reached = int(offsets[-1]) + 1

    def take(self, end: int) -> list[pa.Table]:
        """Returns the records before an offset, where the next range is expected to begin."""
        taken: list[pa.Table] = []
        left: list[pa.Table] = []
        for table in self.tables:
            before = int(np.searchsorted(table.column("offset").to_numpy(), end))
            taken += [table.slice(0, before)] if before else []
            left += [table.slice(before)] if before < len(table) else []
        self.tables, self.at = left, end
        return taken


def _table(place: Place, messages: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Returns records of one partition as columns; timestamps are Kafka's milliseconds."""
    rows = len(messages)
    columns: dict[str, pa.Array] = {
        "topic": pa.repeat(pa.scalar(place[0], pa.string()), rows),
        "partition": pa.repeat(pa.scalar(place[1], pa.int32()), rows),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.int64()).cast(MILLISECONDS),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    }
    if "key" in schema.names:
        columns["key"] = pa.array([message.key() for message in messages], pa.binary())
    if "headers" in schema.names:
        columns["headers"] = _headers([message.headers() for message in messages])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _headers(of_records: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    kind = RECORD.field("headers").type
    pairs = [[{"key": key, "value": value} for key, value in each] if each else None for each in of_records]
    return pa.array(pairs, kind)


# Writing rows of sinks.


class Senders:
    """Producers of the sinks of a run, which stay connected between batches."""

    def __init__(self, opened: AdminOf) -> None:
        self._opened = opened
        self._producers: dict[str, Any] = {}
        self._known: dict[str, set[str]] = {}
        """For each sink, the topics that its producer knows."""
        self._errors: deque[Any] = deque(maxlen=1)

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: Sequence[SinkRows], store: SegmentStore) -> None:
        """Writes rows to Kafka, and waits until all are written. Raises the first error of a row that was not
        written."""
        sink = node.sink
        assert isinstance(sink, KafkaSink)
        missing = missing_topics(self._opened, node.name, sink, (store.read(rows.ref) for rows in sink_rows))
        with naming(f"sink {node.name!r}"):
            try:
                failed: list[tuple[str, Any]] = []
                producer = self._producer(node.name, sink)
                known = self._known.setdefault(node.name, set())
                for rows in sink_rows:
                    table = encode(sink.records, store.read(rows.ref).cast(node.schema))
                    if missing and sink.undeliverable is not None:
                        table = redirect_missing(table, missing, sink.undeliverable)
                    records = outgoing(table, sink.topic, batch.record_name(node.name, rows), rows.first)
                    for topic in sorted(set(pc.unique(records.column("topic")).to_pylist()) - known):
                        # Otherwise the first records of a topic wait half a second, for a timer of librdkafka.
                        with suppress(confluent().KafkaException):  # sending reports it too
                            producer.list_topics(topic, 1)
                        known.add(topic)
                    for part in records.to_batches(_AT_ONCE):
                        _produce(producer, part, failed)
                while producer.flush(_POLL) and not failed:
                    pass
            except BaseException:
                self._forget(node.name)
                raise
            if failed:
                self._forget(node.name)
                raise _failure(*failed[0], self._errors[-1].str() if self._errors else "")

    def close(self) -> None:
        """Disconnects."""
        for name in list(self._producers):
            self._forget(name)

    def _producer(self, name: str, sink: KafkaSink) -> Any:
        if name not in self._producers:
            whose = f"sink {name!r}"
            settings = writing_settings(whose, sink.servers, sink.options)
            self._producers[name] = made("Producer", whose, {**settings, "error_cb": self._errors.append})
        return self._producers[name]

    def _forget(self, name: str) -> None:
        """Drops a producer, with the records that it has not sent."""
        producer = self._producers.pop(name, None)
        self._known.pop(name, None)
        if producer is not None:
            producer.purge()
            producer.flush(_POLL)


def send_messages(servers: str, topic: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """Sends messages (``key``, ``value``, ``headers``) to a topic in order; returns their number. Raises the first
    error of a message that was not written."""
    whose = f"topic {topic!r}"
    producer, failed, number = made("Producer", whose, writing_settings(whose, servers, {})), list[tuple[str, Any]](), 0
    for number, message in enumerate(messages, 1):
        pairs = [(header["key"], header["value"]) for header in message.get("headers") or ()]
        _send(producer, failed, topic, message["value"], message["key"], pairs, None)
        if not number % _AT_ONCE:
            producer.poll(0)
    while producer.flush(_POLL) and not failed:
        pass
    if failed:
        raise _failure(*failed[0])
    return number


def _produce(producer: Any, records: pa.RecordBatch, failed: list[tuple[str, Any]]) -> None:
    """Sends records, and lists the refused ones in ``failed``."""
    columns = records.to_pydict()
    for topic, partition, key, value, headers in zip(
        columns["topic"], columns["partition"], columns["key"], columns["value"], columns["headers"], strict=True
    ):
        pairs = [(header["key"], header["value"]) for header in headers]
        _send(producer, failed, topic, value, key, pairs, partition)
    producer.poll(0)


def _send(
    producer: Any,
    failed: list[tuple[str, Any]],
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int | None,
) -> None:
    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append((message.topic(), error))

    where = {} if partition is None else {"partition": partition}
    while not failed:
        try:
            producer.produce(topic, value, key, on_delivery=delivered, headers=headers, **where)
            return
        except BufferError:  # librdkafka's queue is full
            producer.poll(_POLL)
        except confluent().KafkaException as error:
            failed.append((topic, error.args[0]))


def _failure(topic: str, error: Any, connection: str = "") -> WindboltError:
    """Returns the error for a record that was not written; ``connection``: the last event of the connections."""
    why = f"topic {topic!r}: {error.str()}"
    if "SIZE_TOO_LARGE" in error.name() or error.name() == "RECORD_LIST_TOO_LARGE":
        return too_large(why)
    if error.name() == "_UNKNOWN_PARTITION":
        return no_partition(why)
    if error.name() in NO_TOPIC:
        return no_topic(why)
    if is_passing(error):
        return not_delivered(f"{why}; {connection}" if connection else why)
    return UnreachableError(
        "Kafka does not take a record",
        why=why,
        do="see what its brokers and the rights of this user say, then rerun: the batch was not committed, and "
        "runs again",
    )
