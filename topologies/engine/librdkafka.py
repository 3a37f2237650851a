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
    OffsetRange,
    OpenAdmin,
    Records,
    TopicInfo,
    TopicPartition,
    deleted_unread,
    ends_earlier,
    errors_about,
    missing_topics,
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
    FIRST_RESPONSE_TIMEOUTS,
    READING_DEFAULTS,
    RECORDS_PER_BATCH,
    WRITING_DEFAULTS,
    KafkaSink,
    KafkaSpout,
    kafka_settings,
    librdkafka_settings,
    may_lose_records,
    names_matching,
    redirect_missing,
    timeout_ms,
    with_names_of_java,
)
from topologies.io.topics.declared import RECORD
from topologies.io.topics.encode import encode
from windowing.errors import ConfigError, DataError, EnvironmentMissing, UnreachableError, WindboltError

# The package, its settings and its errors.


_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which patterns do not match."""
_TRANSIENT = (
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
            make_client("Producer", whose, writing_settings(whose, sink.sink.servers, sink.sink.options))


def check_spout_options(name: str, spout: KafkaSpout) -> None:
    """Raises ConfigError for options that a local run or librdkafka does not support."""
    whose = f"spout {name!r}"
    make_client("Consumer", whose, reading_settings(whose, spout.servers, spout.options))


def confluent() -> ModuleType:
    """Returns the package. Raises ImportError if it is missing."""
    import confluent_kafka

    return confluent_kafka


def _admin_module() -> ModuleType:
    import confluent_kafka.admin

    return confluent_kafka.admin


_OUR_CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # reports the end, so that only gaps of transactions and compaction remain
}
_LARGEST = 1_000_000
"""librdkafka's default for a producer's largest record, in bytes."""
_OUR_PRODUCER = {
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
    users_settings = settings_for(whose, servers, {**READING_DEFAULTS, **options})
    # Even if much has been fetched, the next request is not delayed for a whole second. Partitions that are read from
    # another position wait for the request that is under way.
    our_defaults = {"fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 100, "isolation.level": "read_uncommitted"}
    fetch_bytes = str(users_settings.get("fetch.max.bytes", ""))
    if fetch_bytes.isdigit() and int(fetch_bytes) < _LARGEST:  # else it refuses a record of a producer's largest size
        our_defaults["message.max.bytes"] = fetch_bytes
    return {**our_defaults, **users_settings, **_OUR_CONSUMER}


def writing_settings(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the settings of a producer from users' ``options``. Raises ConfigError."""
    options = {**WRITING_DEFAULTS, **options}
    users_settings = settings_for(whose, servers, options)
    max_block = timeout_ms(options, "kafka.max.block.ms")
    our_defaults = {**_OUR_PRODUCER, "topic.metadata.propagation.max.ms": max_block}
    # As Java's producer, which then is idempotent only if that is set too.
    if users_settings.get("acks", "all") not in ("all", "-1") or users_settings.get("retries") == "0":
        our_defaults["enable.idempotence"] = False
    return {**our_defaults, **users_settings, "delivery.report.only.error": True}


def settings_for(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    try:
        users_settings = librdkafka_settings(options)
    except ConfigError as error:
        raise ConfigError(f"{whose}: {error.what}", why=error.why, do=error.do) from None
    # librdkafka would print to standard error that a broker is away; the important facts are in the errors.
    return {"log_level": 0, "client.id": "windbolt", **users_settings, "bootstrap.servers": servers}


def make_client(kind: str, whose: str, settings: dict[str, Any]) -> Any:
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


def is_transient_error(error: Any) -> bool:
    return error.name() in _TRANSIENT or error.retriable()


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
        futures = self._client.describe_topics(confluent().TopicCollection(list(topics)), request_timeout=self.seconds)
        descriptions = {topic: answer.result() for topic, answer in futures.items()}
        return {
            topic: TopicInfo(_javas_id(each.topic_id), len(each.partitions)) for topic, each in descriptions.items()
        }

    def ends(
        self, topic_partitions: Collection[TopicPartition], *, first: bool = False, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Returns the ends of partitions; ``committed``: only up to the first open transaction."""
        spec = _admin_module().OffsetSpec
        return self._offsets(
            dict.fromkeys(topic_partitions, spec.earliest() if first else spec.latest()), committed=committed
        )

    def at(
        self, topic_partitions: Collection[TopicPartition], moment: int, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Returns, for each partition, the offset of the first record with this timestamp in milliseconds, or a later
        one; -1 if there is none. ``committed``: as for ``ends``."""
        spec = _admin_module().OffsetSpec.for_timestamp(moment)
        return self._offsets(dict.fromkeys(topic_partitions, spec), committed=committed)

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

    def _offsets(self, specs: Mapping[TopicPartition, Any], *, committed: bool = False) -> dict[TopicPartition, int]:
        if not specs:
            return {}
        module = confluent()
        level = module.IsolationLevel.READ_COMMITTED if committed else module.IsolationLevel.READ_UNCOMMITTED
        request = {module.TopicPartition(*topic_partition): spec for topic_partition, spec in specs.items()}
        answers: Mapping[Any, Future[Any]] = self._client.list_offsets(
            request, isolation_level=level, request_timeout=self.seconds
        )
        return {
            (topic_partition.topic, topic_partition.partition): int(answer.result().offset)
            for topic_partition, answer in answers.items()
        }

    def _configs(self, kind: str, names: Collection[str]) -> dict[str, dict[str, Any]]:
        resource = _admin_module().ConfigResource
        names_by_resource = {resource(kind, name): name for name in names}
        answers = self._client.describe_configs(list(names_by_resource), request_timeout=self.seconds)
        try:
            return {
                names_by_resource[each]: {name: entry.value for name, entry in answer.result().items()}
                for each, answer in answers.items()
            }
        except confluent().KafkaException as error:  # not every user may query the settings
            if is_transient_error(error.args[0]):
                raise
            return {}


def _javas_id(librdkafkas_id: Any) -> str:
    """Returns an id in Java's notation."""
    return UNKNOWN_ID if librdkafkas_id is None else str(librdkafkas_id).replace("+", "-").replace("/", "_")


class Admins:
    """The clients of a run, which stay connected."""

    def __init__(self) -> None:
        self._clients: dict[tuple[Any, ...], LibrdkafkaAdmin] = {}

    @contextmanager
    def open(self, whose: str, servers: str, options: Mapping[str, str]) -> Iterator[LibrdkafkaAdmin]:
        """Yields a client. Raises UnreachableError if no server responds."""
        admin = self._client(whose, servers, options)
        try:
            yield admin
        except confluent().KafkaException as raised:
            admin.poll()
            error, transient = raised.args[0], is_transient_error(raised.args[0])
            last_error = admin.errors[-1].str() if admin.errors else ""
            why = error.str() if not last_error or last_error in error.str() else f"{error.str()}; {last_error}"
            raise no_answer(whose, servers, why, transient=transient) from None

    def with_retries(
        self, whose: str, servers: str, options: Mapping[str, str], ask: Callable[[LibrdkafkaAdmin], Any]
    ) -> Any:
        """Returns the result of a request, which is repeated while brokers are away, for as long as Spark's connector
        does."""
        seconds = 3 * timeout_ms({**READING_DEFAULTS, **options}, "kafka.default.api.timeout.ms") / 1000
        deadline = time.monotonic() + seconds
        while True:
            try:
                with self.open(whose, servers, options) as admin:
                    return ask(admin)
            except UnreachableError as error:
                if not error.transient or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)

    def _client(self, whose: str, servers: str, options: Mapping[str, str]) -> LibrdkafkaAdmin:
        key = (servers, *sorted(options.items()))
        if key not in self._clients:
            timeout_options = {**FIRST_RESPONSE_TIMEOUTS, **kafka_settings(options)}
            errors: deque[Any] = deque(maxlen=1)
            settings = settings_for(whose, servers, {name: each for name, each in options.items() if _is_kafkas(name)})
            settings["socket.timeout.ms"] = timeout_ms(timeout_options, "request.timeout.ms")
            settings["error_cb"] = errors.append
            client = make_client("AdminClient", whose, settings)
            self._clients[key] = LibrdkafkaAdmin(
                client, timeout_ms(timeout_options, "default.api.timeout.ms") / 1000, errors
            )
        return self._clients[key]


def _is_kafkas(name: str) -> bool:
    return name.startswith("kafka.")


# The part of a spout's topics that a batch reads, planned as Spark's connector does.


EndOffsets = dict[TopicPartition, int]
"""For each partition, the offset after the last record of any batch so far."""


class Topics:
    """The topics of a spout during a run."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        """Raises ConfigError for a pattern that Python does not support."""
        self.name, self.spout, self._admins = name, spout, admins
        self.latest_ends: EndOffsets = {}
        """The end of each partition at the last request."""
        self._reads_committed = (
            kafka_settings(READING_DEFAULTS, spout.options).get("isolation.level") == "read_committed"
        )

    def start_offsets(self) -> EndOffsets:
        """Returns the offsets where a new run begins."""
        return dict(self._ask(self._start_offsets))

    def all_batches(self, before: EndOffsets) -> Iterator[tuple[EndOffsets, list[str]]]:
        """Yields the ends of each batch up to the present end of the topics, with messages for the user."""
        present_ends, complaints = self._checked_ends(before)
        while True:
            ends = self._within_limit(before, present_ends)
            yield ends, complaints
            if ends == present_ends:
                return
            before, complaints = ends, []

    def next_batch(self, before: EndOffsets) -> tuple[EndOffsets, list[str]]:
        """Returns the ends of the next batch, or ``before`` if there are no new records; and messages for the user."""
        present_ends, complaints = self._checked_ends(before)
        return self._within_limit(before, present_ends), complaints

    def _checked_ends(self, before: EndOffsets) -> tuple[EndOffsets, list[str]]:
        """Returns the present ends, and messages about deleted topics and records. Raises DataError if the spout must
        not lose any."""
        self.latest_ends = present_ends = dict(self._ask(self._present_ends))
        may_lose, complaints, deleted = may_lose_records(self.spout.options), list[str](), dict[str, list[int]]()
        for topic, partition in sorted(before.keys() - present_ends.keys()):
            deleted.setdefault(topic, []).append(partition)
        if deleted and not may_lose:
            topic, numbers = next(iter(deleted.items()))
            raise _spout_error(self.name, deleted_unread(f"topic {topic!r} has no partition {numbers[0]} any more"))
        for topic, numbers in deleted.items():
            partitions_in_words = f"partition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
            complaints.append(
                f"{self.name}: topic {topic}, {partitions_in_words}: deleted; what was not read of it is lost"
            )
        going_back = [
            topic_partition
            for topic_partition, end in sorted(before.items())
            if present_ends.get(topic_partition, end) < end
        ]
        if going_back and not may_lose:
            topic, partition = going_back[0]
            ended, ends = before[topic, partition], present_ends[topic, partition]
            change = f"partition {partition} of topic {topic!r} ended at {ended}, and ends at {ends} now"
            raise _spout_error(self.name, ends_earlier(change))
        for topic, partition in going_back:
            ended, ends = before[topic, partition], present_ends[topic, partition]
            complaints.append(
                f"{self.name}: topic {topic}, partition {partition}: it ends at offset {ends}, and was read up to "
                f"{ended}; what is new before that is not read"
            )
        return present_ends, complaints

    def _within_limit(self, before: EndOffsets, present_ends: EndOffsets) -> EndOffsets:
        """Returns the ends of a batch of at most as many records as the spout allows. Partitions share the limit in
        proportion to their waiting records, with the arithmetic of Spark's connector."""
        limit = self.spout.records_per_batch or RECORDS_PER_BATCH
        waiting = {
            topic_partition: size
            for topic_partition, end in present_ends.items()
            if (size := end - before.get(topic_partition, 0)) > 0
        }
        total = sum(waiting.values())
        ends = dict(present_ends)
        for topic_partition, size in waiting.items():
            share = limit * (size / total)
            number = -int(-share // 1) if share < 1 else int(share)
            ends[topic_partition] = min(present_ends[topic_partition], before.get(topic_partition, 0) + number)
        return ends

    def _ask(self, request: Callable[[LibrdkafkaAdmin], EndOffsets]) -> EndOffsets:
        spout = self.spout
        found: EndOffsets = self._admins.with_retries(f"spout {self.name!r}", spout.servers, spout.options, request)
        return found

    def _start_offsets(self, admin: LibrdkafkaAdmin) -> EndOffsets:
        topic_partitions, starting = self._topic_partitions(admin), self.spout.starting
        match starting:
            case "earliest":
                return admin.ends(topic_partitions, first=True)
            case "latest":
                return self._ends_of(admin, topic_partitions)
            case datetime():
                found = admin.at(topic_partitions, since_1970(starting), committed=self._reads_committed)
                later = [topic_partition for topic_partition, offset in found.items() if offset < 0]
                return found | self._ends_of(admin, later)
            case offsets:
                assert not isinstance(offsets, str)
                named = {(topic, number): at for topic in offsets for number, at in offsets[topic].items()}
                others = [each for each in topic_partitions if each not in named]
                return admin.ends(others, first=True) | named

    def _present_ends(self, admin: LibrdkafkaAdmin) -> EndOffsets:
        return self._ends_of(admin, self._topic_partitions(admin))

    def _ends_of(self, admin: LibrdkafkaAdmin, topic_partitions: Collection[TopicPartition]) -> EndOffsets:
        return admin.ends(topic_partitions, committed=self._reads_committed)

    def _topic_partitions(self, admin: LibrdkafkaAdmin) -> list[TopicPartition]:
        existing = admin.topics()
        wanted = existing & {*self.spout.topics, *names_matching(self.spout.pattern, existing)}
        topics = admin.describe(wanted)
        return [(topic, number) for topic in sorted(topics) for number in range(topics[topic].partitions)]


def _spout_error(name: str, error: DataError) -> DataError:
    return DataError(f"spout {name!r}: {error.what}", why=error.why, do=error.do)


# Reading ranges of offsets.


_POLL = 0.1
"""Seconds to wait for the next records, or for acknowledgements of records that were sent."""
_PER_CALL = 10_000
"""Records that are exchanged with librdkafka in one call."""
_MOST_AHEAD = 50_000
"""Records of a partition beyond the current range; with more, fetching pauses."""


class RangeReader:
    """A consumer of a spout's topics. It stays connected between batches, and keeps records beyond the end of a
    batch."""

    def __init__(self, name: str, spout: KafkaSpout, admins: Admins) -> None:
        self._name, self._spout, self._admins = name, spout, admins
        self._schema = pa.schema(
            [each.with_type(MILLISECONDS) if each.name == "timestamp" else each for each in spout.record]
        )
        options = {**READING_DEFAULTS, **spout.options}
        self._longest_silence = timeout_ms(options, "kafkaConsumer.pollTimeoutMs") / 1000
        self._errors: deque[Any] = deque(maxlen=1)
        self._consumer: Any = None
        self._partitions: dict[TopicPartition, _Partition] = {}

    def read(self, ranges: Iterable[OffsetRange]) -> tuple[list[Records], list[str]]:
        """Returns the records of the non-empty ranges, in order of topic and partition, and messages about deleted
        records. Raises DataError if the spout must not lose any, UnreachableError if no record has come for long."""
        wanted_ranges = {(each.topic, each.partition): each for each in ranges}
        if not wanted_ranges:
            return [], []
        complaints: list[str] = []
        self._go_to(wanted_ranges)
        last_progress = time.monotonic()
        while unread := [
            topic_partition
            for topic_partition, each in wanted_ranges.items()
            if self._partitions[topic_partition].read_until < each.end
        ]:
            messages = self._consumer.consume(1, _POLL)
            messages += self._consumer.consume(_PER_CALL, 0) if messages else []
            if self._keep_messages(messages, wanted_ranges, complaints):
                last_progress = time.monotonic()
            elif time.monotonic() - last_progress > self._longest_silence:
                raise self._silent(wanted_ranges[unread[0]])
        return [
            self._records_of(wanted_ranges[topic_partition])
            for topic_partition in sorted(wanted_ranges)
            if self._has_records(wanted_ranges[topic_partition])
        ], complaints

    def close(self) -> None:
        """Disconnects."""
        consumer, self._consumer, self._partitions = self._consumer, None, {}
        if consumer is not None:
            consumer.close()

    def _go_to(self, wanted_ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Fetches records from the starts of these ranges."""
        partitions = self._partitions
        if self._consumer is not None and all(
            topic_partition in partitions and partitions[topic_partition].at == each.start
            for topic_partition, each in wanted_ranges.items()
        ):
            paused = [topic_partition for topic_partition in wanted_ranges if partitions[topic_partition].paused]
            for topic_partition in paused:
                partitions[topic_partition].paused = False
            if paused:
                self._consumer.resume(self._as_librdkafkas(paused))
            return
        if self._consumer is None:
            whose = f"spout {self._name!r}"
            settings = reading_settings(whose, self._spout.servers, self._spout.options)
            self._consumer = make_client("Consumer", whose, {**settings, "error_cb": self._errors.append})
        for topic_partition in partitions.keys() | wanted_ranges.keys():
            start = (
                wanted_ranges[topic_partition].start
                if topic_partition in wanted_ranges
                else partitions[topic_partition].at
            )
            partitions[topic_partition] = _Partition(start, start)
        self._assign()

    def _assign(self) -> None:
        """Fetches records from the present position of each partition."""
        assigned = [(*topic_partition, each.read_until) for topic_partition, each in self._partitions.items()]
        self._consumer.assign([confluent().TopicPartition(*each) for each in assigned])
        paused = [topic_partition for topic_partition, each in self._partitions.items() if each.paused]
        for topic_partition in paused:
            self._partitions[topic_partition].paused = False
        if paused:
            self._consumer.resume(self._as_librdkafkas(paused))

    def _keep_messages(
        self, messages: Sequence[Any], wanted_ranges: Mapping[TopicPartition, OffsetRange], complaints: list[str]
    ) -> bool:
        """Keeps the messages; returns True if there was progress."""
        by_partition: dict[TopicPartition, list[Any]] = {}
        events: list[Any] = []
        for message in messages:
            if message.error() is None:
                by_partition.setdefault((message.topic(), message.partition()), []).append(message)
            else:
                events.append(message)
        progress = False
        for topic_partition, partition_messages in by_partition.items():
            partition = self._partitions.get(topic_partition)
            if partition is None:
                continue
            partition.add(_table(topic_partition, partition_messages, self._schema))
            progress = True
            if topic_partition not in wanted_ranges or partition.read_until >= wanted_ranges[topic_partition].end:
                self._pause_if_ahead(topic_partition, partition)
        for event in events:  # after the records, which precede a partition's end
            progress |= self._handle_event(event, wanted_ranges, complaints)
        return progress

    def _pause_if_ahead(self, topic_partition: TopicPartition, partition: _Partition) -> None:
        if partition.rows > _MOST_AHEAD and not partition.paused:
            partition.paused = True
            self._consumer.pause(self._as_librdkafkas([topic_partition]))

    def _handle_event(
        self, message: Any, wanted_ranges: Mapping[TopicPartition, OffsetRange], complaints: list[str]
    ) -> bool:
        """Handles the end of a partition, or an error; returns True if that was progress."""
        error, topic_partition = message.error(), (message.topic(), message.partition())
        partition = self._partitions.get(topic_partition)
        if partition is None:
            self._errors.append(error)
            return False
        match error.name():
            case "_PARTITION_EOF":
                partition.read_until = max(partition.read_until, message.offset())
            case "_AUTO_OFFSET_RESET" | "OFFSET_OUT_OF_RANGE":
                partition.out_of_range = True
            case name if name in NO_TOPIC:
                raise _spout_error(
                    self._name,
                    deleted_unread(f"topic {topic_partition[0]!r} has no partition {topic_partition[1]} any more"),
                )
            case _:
                self._errors.append(error)
                return False
        if topic_partition not in wanted_ranges:
            return False
        if partition.read_until < wanted_ranges[topic_partition].end:
            return self._skip_deleted(partition, wanted_ranges[topic_partition], complaints)
        return True

    def _skip_deleted(self, partition: _Partition, offset_range: OffsetRange, complaints: list[str]) -> bool:
        """Skips deleted records, if a partition begins after them or ends before them; returns True if there were
        any."""
        topic, number, spout, read_until = offset_range.topic, offset_range.partition, self._spout, partition.read_until
        first_offset, end = self._admins.with_retries(
            f"spout {self._name!r}", spout.servers, spout.options, lambda admin: _first_and_end(admin, (topic, number))
        )
        if end < offset_range.end:  # false if a lagging replica has responded
            change = f"partition {number} of topic {topic!r} was to be read up to {offset_range.end}, and ends at {end}"
            error, lost, next_offset = ends_earlier(change), offset_range.end - max(read_until, end), offset_range.end
        elif partition.out_of_range and first_offset > read_until:
            lost = min(first_offset, offset_range.end) - read_until
            deleted = f"topic {topic!r}, partition {number}: {lost:,} records from offset {read_until} on are gone"
            error, next_offset = deleted_unread(deleted), max(first_offset, read_until)
        else:
            return False
        if not may_lose_records(spout.options):
            raise _spout_error(self._name, error)
        lost_from = offset_range.end - lost if next_offset == offset_range.end else read_until
        complaints.append(
            f"{self._name}: topic {topic}, partition {number}: {lost:,} records from offset {lost_from} on were "
            "deleted before they were read"
        )
        partition.read_until, partition.out_of_range = next_offset, False
        self._assign()
        return True

    def _has_records(self, offset_range: OffsetRange) -> bool:
        """True if a range has records; an empty range means that its partition is at its end."""
        partition = self._partitions[offset_range.topic, offset_range.partition]
        if any(table.column("offset")[0].as_py() < offset_range.end for table in partition.tables):
            return True
        partition.at = offset_range.end
        return False

    def _records_of(self, offset_range: OffsetRange) -> Records:
        partition = self._partitions[offset_range.topic, offset_range.partition]
        return Records(self._name, partition.take(offset_range.end))

    def _as_librdkafkas(self, topic_partitions: Iterable[TopicPartition]) -> list[Any]:
        return [confluent().TopicPartition(*topic_partition) for topic_partition in topic_partitions]

    def _silent(self, offset_range: OffsetRange) -> UnreachableError:
        partition = f"topic {offset_range.topic!r}, partition {offset_range.partition}"
        what = f"no record of {partition}, came for {self._longest_silence:g} seconds"
        last = f"; {self._errors[-1].str()}" if self._errors else ""
        self.close()
        return no_answer(f"spout {self._name!r}", self._spout.servers, f"{what}{last}", transient=True)


def _first_and_end(admin: LibrdkafkaAdmin, topic_partition: TopicPartition) -> tuple[int, int]:
    """Returns the offset of a partition's first record, and the offset after its last record."""
    return admin.ends([topic_partition], first=True)[topic_partition], admin.ends([topic_partition])[topic_partition]


class _Partition:
    """A partition that is being read."""

    def __init__(self, next_start: int, read_until: int) -> None:
        self.at = next_start
        """The expected start of the next range."""
        self.read_until = read_until
        """All records before this offset have come."""
        self.tables: list[pa.Table] = []
        self.paused = False
        self.out_of_range = False
        """True if the broker does not have the record at offset ``read_until``."""

    @property
    def rows(self) -> int:
        """Number of records that no range has taken."""
        return sum(len(table) for table in self.tables)

    def add(self, table: pa.Table) -> None:
        """Keeps further records; some may be repeated, if the consumer was paused."""
        offsets = table.column("offset").to_numpy()
        repeated = int(np.searchsorted(offsets, self.read_until))
        if repeated < len(offsets):
            self.tables.append(table.slice(repeated))
            self.read_until = int(offsets[-1]) + 1

    def take(self, end: int) -> list[pa.Table]:
        """Returns the records before an offset, where the next range is expected to begin."""
        taken: list[pa.Table] = []
        kept: list[pa.Table] = []
        for table in self.tables:
            before = int(np.searchsorted(table.column("offset").to_numpy(), end))
            taken += [table.slice(0, before)] if before else []
            kept += [table.slice(before)] if before < len(table) else []
        self.tables, self.at = kept, end
        return taken


def _table(topic_partition: TopicPartition, messages: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Returns records of one partition as columns; timestamps are Kafka's milliseconds."""
    rows = len(messages)
    columns: dict[str, pa.Array] = {
        "topic": pa.repeat(pa.scalar(topic_partition[0], pa.string()), rows),
        "partition": pa.repeat(pa.scalar(topic_partition[1], pa.int32()), rows),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "timestamp": pa.array([message.timestamp()[1] for message in messages], pa.int64()).cast(MILLISECONDS),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    }
    if "key" in schema.names:
        columns["key"] = pa.array([message.key() for message in messages], pa.binary())
    if "headers" in schema.names:
        columns["headers"] = _headers([message.headers() for message in messages])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _headers(headers_of_records: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    kind = RECORD.field("headers").type
    pairs = [[{"key": key, "value": value} for key, value in each] if each else None for each in headers_of_records]
    return pa.array(pairs, kind)


# Writing rows of sinks.


class Senders:
    """Producers of the sinks of a run, which stay connected between batches."""

    def __init__(self, open_admin: OpenAdmin) -> None:
        self._open_admin = open_admin
        self._producers: dict[str, Any] = {}
        self._known_topics: dict[str, set[str]] = {}
        """For each sink, the topics that its producer knows."""
        self._errors: deque[Any] = deque(maxlen=1)

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: Sequence[SinkRows], store: SegmentStore) -> None:
        """Writes rows to Kafka, and waits until all are written. Raises the first error of a row that was not
        written."""
        sink = node.sink
        assert isinstance(sink, KafkaSink)
        missing = missing_topics(self._open_admin, node.name, sink, (store.read(rows.ref) for rows in sink_rows))
        with errors_about(f"sink {node.name!r}"):
            try:
                failed: list[tuple[str, Any]] = []
                producer = self._producer(node.name, sink)
                known_topics = self._known_topics.setdefault(node.name, set())
                for rows in sink_rows:
                    table = encode(sink.records, store.read(rows.ref).cast(node.schema))
                    if missing and sink.undeliverable is not None:
                        table = redirect_missing(table, missing, sink.undeliverable)
                    records = outgoing(table, sink.topic, batch.record_name(node.name, rows), rows.first)
                    for topic in sorted(set(pc.unique(records.column("topic")).to_pylist()) - known_topics):
                        # Otherwise the first records of a topic wait half a second, for a timer of librdkafka.
                        with suppress(confluent().KafkaException):  # sending reports it too
                            producer.list_topics(topic, 1)
                        known_topics.add(topic)
                    for part in records.to_batches(_PER_CALL):
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
            self._producers[name] = make_client("Producer", whose, {**settings, "error_cb": self._errors.append})
        return self._producers[name]

    def _forget(self, name: str) -> None:
        """Drops a producer, with the records that it has not sent."""
        producer = self._producers.pop(name, None)
        self._known_topics.pop(name, None)
        if producer is not None:
            producer.purge()
            producer.flush(_POLL)


def send_messages(servers: str, topic: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """Sends messages (``key``, ``value``, ``headers``) to a topic in order; returns their number. Raises the first
    error of a message that was not written."""
    whose = f"topic {topic!r}"
    producer = make_client("Producer", whose, writing_settings(whose, servers, {}))
    failed, number = list[tuple[str, Any]](), 0
    for number, message in enumerate(messages, 1):
        pairs = [(header["key"], header["value"]) for header in message.get("headers") or ()]
        _send(producer, failed, topic, message["value"], message["key"], pairs, None)
        if not number % _PER_CALL:
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

    partition_argument = {} if partition is None else {"partition": partition}
    while not failed:
        try:
            producer.produce(topic, value, key, on_delivery=delivered, headers=headers, **partition_argument)
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
    if is_transient_error(error):
        return not_delivered(f"{why}; {connection}" if connection else why)
    return UnreachableError(
        "Kafka does not take a record",
        why=why,
        do="see what its brokers and the rights of this user say, then rerun: the batch was not committed, and "
        "runs again",
    )
