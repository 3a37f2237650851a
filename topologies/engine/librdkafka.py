"""Kafka without Java: librdkafka (package confluent-kafka), its settings, its errors, and questions about topics."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from topologies.engine.kafka_topics import (
    UNKNOWN_ID,
    Admin,
    Place,
    TopicInfo,
    no_answer,
)
from topologies.graph.graph import Graph
from topologies.io.kafka import KafkaSink, KafkaSpout
from topologies.io.kafka_options import (
    FIRST,
    READING,
    WRITING,
    kafka_settings,
    librdkafka_settings,
    milliseconds,
    with_names_of_java,
)
from windowing.errors import ConfigError, EnvironmentMissing, UnreachableError

# The package, its settings and its errors.


_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which no pattern means."""
_PASSING = (
    "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "NOT_CONTROLLER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE",
    "_FATAL", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID",  # of a producer; the next run has another one
)  # fmt: skip
"""Errors that may pass by themselves, by librdkafka's names."""
NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
_PAUSE = 0.2
"""Seconds between two questions to brokers that do not answer."""


def need_confluent(what: str) -> None:
    """Raise EnvironmentMissing where the package is missing; ``what`` needs it."""
    try:
        confluent()
    except ImportError as error:
        raise EnvironmentMissing(
            f"Kafka in a local run: {what}, and the package confluent-kafka is missing",
            why="without Spark, Kafka is read and written through that package",
            do="pip install 'windbolt[kafka]'; or run on Spark, which has its own connector",
        ) from error


def has_confluent() -> bool:
    """True if the package is there."""
    try:
        confluent()
    except ImportError:
        return False
    return True


def check_options(topology: Graph) -> None:
    """Raise EnvironmentMissing where the topology names Kafka and the package is missing, ConfigError for options
    that a local run cannot follow, or that librdkafka does not take. No broker is asked."""
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
    """Raise ConfigError for options that a local run cannot follow, or that librdkafka does not take."""
    whose = f"spout {name!r}"
    made("Consumer", whose, reading_settings(whose, spout.servers, spout.options))


def confluent() -> ModuleType:
    """The package. Raises ImportError where it is missing."""
    import confluent_kafka

    return confluent_kafka


def _admin_module() -> ModuleType:
    import confluent_kafka.admin

    return confluent_kafka.admin


_READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # says that nothing but gaps is left: of transactions, and of compaction
}
_LARGEST = 1_000_000
"""librdkafka's default for the largest record of a producer, in bytes."""
_ORDERLY = {
    "enable.idempotence": True,
    # With two requests on their way, a broker that has just made a topic may refuse the first, and take the second as
    # the first that it sees of this producer: the first is then lost, and told as delivered (KAFKA-15591).
    "max.in.flight.requests.per.connection": 1,
    "message.max.bytes": 1_048_576,  # as Java's producer
    "partitioner": "murmur2_random",  # so that a key is in the partition in which Java's producer puts it
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
}


def reading_settings(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a consumer; ``options`` as users write them. Raises ConfigError."""
    given = settings_for(whose, servers, {**READING, **options})
    # Where much is fetched already, the next request is not put off for a whole second; and partitions that are
    # read from elsewhere wait for the request that is on its way.
    waiting = {"fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 100, "isolation.level": "read_uncommitted"}
    least = str(given.get("fetch.max.bytes", ""))
    if least.isdigit() and int(least) < _LARGEST:  # else it refuses less than a producer's largest record
        waiting["message.max.bytes"] = least
    return {**waiting, **given, **_READING}


def writing_settings(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a producer; ``options`` as users write them. Raises ConfigError."""
    options = {**WRITING, **options}
    given = settings_for(whose, servers, options)
    known = milliseconds(options, "kafka.max.block.ms")
    own = {**_ORDERLY, "topic.metadata.propagation.max.ms": known}
    # As Java's producer, which then is not idempotent unless that is asked for too.
    if given.get("acks", "all") not in ("all", "-1") or given.get("retries") == "0":
        own["enable.idempotence"] = False
    return {**own, **given, "delivery.report.only.error": True}


def settings_for(whose: str, servers: str, options: Mapping[str, str]) -> dict[str, Any]:
    try:
        own = librdkafka_settings(options)
    except ConfigError as error:
        raise ConfigError(f"{whose}: {error.what}", why=error.why, do=error.do) from None
    # It would write to the standard error stream that a broker is away; what matters is in the errors.
    return {"log_level": 0, "client.id": "windbolt", **own, "bootstrap.servers": servers}


def made(kind: str, whose: str, settings: dict[str, Any]) -> Any:
    """A client. ConfigError for settings that librdkafka does not take; the text has the names of options, and no
    values."""
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


# Questions about topics.


class LibrdkafkaAdmin(Admin):
    """librdkafka's client for questions; its errors are KafkaException."""

    def __init__(self, client: Any, seconds: float, errors: Sequence[Any]) -> None:
        """``seconds`` for an answer. ``errors``: what happened to connections."""
        self._client, self.seconds, self.errors = client, seconds, errors

    def topics(self) -> set[str]:
        return set(self._client.list_topics(timeout=self.seconds).topics) - _INTERNAL

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo]:
        if not topics:
            return {}
        asked = self._client.describe_topics(confluent().TopicCollection(list(topics)), request_timeout=self.seconds)
        found = {topic: answer.result() for topic, answer in asked.items()}
        return {topic: TopicInfo(_id(each.topic_id), len(each.partitions)) for topic, each in found.items()}

    def ends(self, places: Collection[Place], *, first: bool = False, committed: bool = False) -> dict[Place, int]:
        """``committed``: not what is behind the first transaction that is open."""
        spec = _admin_module().OffsetSpec
        return self._offsets(dict.fromkeys(places, spec.earliest() if first else spec.latest()), committed=committed)

    def at(self, places: Collection[Place], moment: int, *, committed: bool = False) -> dict[Place, int]:
        """The offset of the first record of each partition whose timestamp is this, in milliseconds, or later; -1
        where there is none. ``committed`` as for ``ends``."""
        spec = _admin_module().OffsetSpec.for_timestamp(moment)
        return self._offsets(dict.fromkeys(places, spec), committed=committed)

    def limits(self, topics: Collection[str]) -> dict[str, int]:
        found = self._configs("TOPIC", topics)
        return {topic: int(entry) for topic in found if (entry := found[topic].get("max.message.bytes")) is not None}

    def makes_topics(self) -> bool:
        broker = str(next(iter(self._client.list_topics(timeout=self.seconds).brokers)))
        return str(self._configs("BROKER", [broker]).get(broker, {}).get("auto.create.topics.enable")) != "false"

    def poll(self) -> None:
        """Let librdkafka tell what happened to its connections."""
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
        except confluent().KafkaException as error:  # not every user may query this
            if is_passing(error.args[0]):
                raise
            return {}


def _id(found: Any) -> str:
    """As Java writes it."""
    return UNKNOWN_ID if found is None else str(found).replace("+", "-").replace("/", "_")


class Admins:
    """The clients of a run, which stay connected."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, ...], LibrdkafkaAdmin] = {}

    @contextmanager
    def of(self, whose: str, servers: str, options: Mapping[str, str]) -> Iterator[LibrdkafkaAdmin]:
        """A client. Raises UnreachableError where no server answers."""
        admin = self._client(whose, servers, options)
        try:
            yield admin
        except confluent().KafkaException as error:
            admin.poll()
            said, passing = error.args[0], is_passing(error.args[0])
            last = admin.errors[-1].str() if admin.errors else ""
            why = said.str() if not last or last in said.str() else f"{said.str()}; {last}"
            raise no_answer(whose, servers, why, transient=passing) from None

    def patiently(
        self, whose: str, servers: str, options: Mapping[str, str], ask: Callable[[LibrdkafkaAdmin], Any]
    ) -> Any:
        """The answer to a question, which is asked again where brokers are away, as long as Spark's connector asks."""
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
