"""Options of Kafka as users write them, for Spark's connector: their defaults, and what they are for librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windowing.errors import ConfigError

# Options of Spark's connector, and their defaults: the same on both engines.


READING = {
    "failOnDataLoss": "true",
    "kafka.default.api.timeout.ms": "20000",  # Spark asks three times
    "kafka.request.timeout.ms": "15000",
    "kafkaConsumer.pollTimeoutMs": "60000",
    # After each poll Spark asks the broker for offsets, in two requests; by default a poll has at most 500 records.
    # max.partition.fetch.bytes still limits it.
    "kafka.max.poll.records": "10000",
}
"""Default options for reading."""
WRITING = {
    "kafka.max.block.ms": "15000",  # a task is tried up to four times
    "kafka.request.timeout.ms": "15000",
    "kafka.delivery.timeout.ms": "60000",
}
"""Default timeouts for writing: about a minute, long enough for a broker's restart, but not several."""
FIRST = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""Default timeouts for the first answer."""
RECORDS_PER_BATCH = 500_000
"""Default maximum number of records per batch; without one the first batch would be a whole topic."""


def kafka_settings(*options: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's connector that are for Kafka's own clients; the last one counts."""
    return {
        name.removeprefix("kafka."): value
        for some in options
        for name, value in some.items()
        if name.startswith("kafka.")
    }


def may_lose(options: Mapping[str, str]) -> bool:
    """True if a spout with these options goes on where records are gone."""
    return options.get("failOnDataLoss", "true") == "false"


# The same for librdkafka, which reads and writes in local runs.


_CONNECTOR = frozenset(
    {
        "failOnDataLoss",
        "kafkaConsumer.pollTimeoutMs",
        # How Spark divides its work, or asks Kafka: nothing that is read depends on it.
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    }
)
"""Options of the connector that a local run follows, or that change nothing that is read or written."""
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""Settings of Java's clients that librdkafka has under another name."""
_LEAST = {"fetch.max.bytes": 1000, "fetch.min.bytes": 1, "max.partition.fetch.bytes": 1, "batch.size": 1}
"""What librdkafka takes at least, where Java's clients take less: limits that one record may exceed in both."""
_NAMED = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
    **{theirs: ours for ours, theirs in _RENAMED.items()},
}
"""Java's names of settings that librdkafka's errors call otherwise."""
_OF_JAVA = frozenset(
    {
        "auto.include.jmx.reporter",
        "buffer.memory",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "max.block.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "ssl.truststore.password",  # the certificates in a PEM file are not encrypted
    }
)
"""Settings of Java's clients that concern their memory, their metrics or their waiting; windbolt waits itself."""
_OWN = frozenset(
    {
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
"""Settings that are windbolt's own, as they are the connector's."""
_STORES = {"ssl.keystore": "JKS", "ssl.truststore": "JKS"}
"""Files of keys and certificates of Java's, and the type that they have by default."""
_JAAS = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"([\w.]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;]+))")
_PASSWORDS = {"PlainLoginModule", "ScramLoginModule"}
_TOKENS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_DO = "leave it out for local runs, or run on Spark"


def librdkafka_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Options of Spark's connector as settings of librdkafka. Raises ConfigError, which has no value of an option,
    where there is no equivalent."""
    for name in options:
        if not name.startswith("kafka.") and name not in _CONNECTOR:
            raise ConfigError(
                f"option {name!r} in a local run",
                why="it is one of Spark's connector, and nothing in a local run does the same",
                do=_DO,
            )
    found: dict[str, Any] = {}
    given = kafka_settings(options)
    for name, value in given.items():
        if name in _OWN:
            raise ConfigError(f"option 'kafka.{name}'", why="windbolt sets it itself", do="leave it out")
        if name == "partitioner.class":
            raise ConfigError(
                f"option 'kafka.{name}' in a local run",
                why="it names a class of Java's, and a local run has no Java",
                do=_DO,
            )
        if name == "sasl.jaas.config":
            found |= _of_jaas(value)
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value or "none"
        elif name.rpartition(".")[0] in _STORES and name.rpartition(".")[2] in ("location", "type"):
            continue  # below
        elif name not in _OF_JAVA:
            least = _LEAST.get(name, 0) if value.strip().isdigit() else 0
            found[_RENAMED.get(name, name)] = str(least) if least and int(value) < least else value
    for store, usual in _STORES.items():
        if f"{store}.location" in given:
            found |= _of_store(store, given[f"{store}.location"], given.get(f"{store}.type", usual).upper())
    return found


def _of_store(store: str, path: str, kind: str) -> dict[str, str]:
    """The settings for a file of keys or certificates."""
    is_trusted = store == "ssl.truststore"
    if kind == "PEM":
        return {"ssl.ca.location": path} if is_trusted else {"ssl.key.location": path, "ssl.certificate.location": path}
    if kind == "PKCS12" and not is_trusted:
        return {"ssl.keystore.location": path}
    option = f"'kafka.{store}.type'"
    raise ConfigError(
        f"option 'kafka.{store}.location' in a local run: {kind} is a format of Java's"
        if kind == "JKS"
        else f"option 'kafka.{store}.location' in a local run with a type {kind}",
        why="librdkafka reads certificates from PEM files, and keys from those or PKCS12",
        do=f"export them with keytool, and give the PEM file with {option}: 'PEM', as Spark reads it too"
        if is_trusted
        else f"convert it with keytool -importkeystore -deststoretype PKCS12, and give {option}: 'PKCS12'",
    )


def _of_jaas(text: str) -> dict[str, str]:
    """The settings for Java's configuration of a login, which has a password in it: no error shows it."""
    matched = _JAAS.fullmatch(text)
    module = "" if matched is None else matched[1].rpartition(".")[2]
    options = {} if matched is None else {each[1]: _unquoted(each) for each in _JAAS_OPTION.finditer(matched[2])}
    if module in _PASSWORDS and {"username", "password"} <= options.keys():
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if module == "OAuthBearerLoginModule" and {"clientId", "clientSecret"} <= options.keys():
        return {"sasl.oauthbearer.method": "oidc"} | {
            ours: options[name] for name, ours in _TOKENS.items() if name in options
        }
    raise ConfigError(
        "option 'kafka.sasl.jaas.config' in a local run: "
        + (f"{module} is a class of Java's" if module and module not in _PASSWORDS else "no user and password in it"),
        why="librdkafka takes a user and a password (PlainLoginModule, ScramLoginModule), or a client and its secret "
        "(OAuthBearerLoginModule)",
        do='give \'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";\', '
        "or run on Spark",
    )


def _unquoted(found: re.Match[str]) -> str:
    quoted = found[2] if found[2] is not None else found[3]
    return found[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def with_names_of_java(error: str) -> str:
    """The text of an error of librdkafka's, with settings by the names that options have."""
    return re.sub(r"([\"`])([a-z.]+)\1", lambda each: f"{each[1]}{_NAMED.get(each[2], each[2])}{each[1]}", error)


def milliseconds(options: Mapping[str, str], name: str) -> int:
    """A timeout among options. Raises ConfigError for one that is no whole number."""
    value = options[name]
    try:
        return int(value)
    except ValueError:
        raise ConfigError(
            f"option {name!r} is {value!r}", why="it is a number of milliseconds", do="give a whole number"
        ) from None
