"""Options of Kafka as users write them for Java's clients, as librdkafka has them in local runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from topologies.engine.librdkafka import make_client, reading_settings, writing_settings
from topologies.io.kafka import READING_DEFAULTS, WRITING_DEFAULTS, librdkafka_settings
from windowing.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, ...),
        ({"sasl.jaas.config": f'{PLAIN} required username="ann" password="a b;c";'}, ("ann", "a b;c")),
        ({"sasl.jaas.config": f' {SCRAM}   required\n username="ann"\n password="q\\"\\\\" ; '}, ("ann", 'q"\\')),
        ({"sasl.jaas.config": f"{PLAIN} required username=ann password='=x';"}, ("ann", "=x")),
        (
            {
                "sasl.jaas.config": f'{TOKENS} required clientId="me" clientSecret="s" scope="all";',
                "sasl.oauthbearer.token.endpoint.url": "https://here/token",
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "all",
                "sasl.oauthbearer.token.endpoint.url": "https://here/token",
            },
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "pkcs12", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k.pem", "ssl.key.password": "x"},
            {"ssl.key.location": "/k.pem", "ssl.certificate.location": "/k.pem", "ssl.key.password": "x"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN"},
            {"ssl.ca.pem": "-----BEGIN"},
        ),
        ({"fetch.max.wait.ms": "5", "max.poll.records": "7"}, {"fetch.wait.max.ms": "5"}),
        ({"max.request.size": "5", "max.block.ms": "7", "acks": "all"}, {"message.max.bytes": "5", "acks": "all"}),
        ({"ssl.ca.location": "/ca.pem"}, ...),
    ],
)
def test_settings_of_java_s_clients_have_librdkafka_s_names(given: dict[str, str], expected: Any) -> None:
    if expected is ...:
        expected = given
    if isinstance(expected, tuple):
        expected = {"sasl.username": expected[0], "sasl.password": expected[1]}
    assert librdkafka_settings({f"kafka.{name}": value for name, value in given.items()}) == expected


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            "kafka.ssl.truststore.location",
            "geheim.jks",
            "JKS is a format of Java's.*'kafka.ssl.truststore.type': 'PEM'",
        ),
        ("kafka.ssl.keystore.location", "geheim.jks", "JKS is a format of Java's.*PKCS12"),
        ("kafka.sasl.jaas.config", "a.Krb5LoginModule required keyTab=geheim;", "Krb5LoginModule is a class of Java's"),
        ("kafka.sasl.jaas.config", f"{PLAIN} required user=geheim;", "no user and password"),
        ("kafka.sasl.jaas.config", "geheim", "no user and password"),
        ("kafka.partitioner.class", "geheim", "a class of Java's"),
        ("kafka.enable.auto.commit", "true", "windbolt sets it itself"),
        ("kafka.transactional.id", "geheim", "windbolt sets it itself"),
        ("minOffsetsPerTrigger", "5", "one of Spark's connector"),
    ],
)
def test_what_has_no_equivalent_is_refused_without_its_value(option: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        librdkafka_settings({option: value})
    assert "geheim" not in str(refused.value)
    assert option in str(refused.value)


def test_the_defaults_are_settings_that_librdkafka_has() -> None:
    Consumer({"group.id": "any", **librdkafka_settings(READING_DEFAULTS)})
    Producer(librdkafka_settings(WRITING_DEFAULTS))
    with pytest.raises(KafkaException, match="No such configuration"):
        Producer(librdkafka_settings({"kafka.unheard.of": "1"}))


@pytest.mark.parametrize("value", ["0", "1", "1000", "999999", "1000000", "52428800"])
@pytest.mark.parametrize("name", ["fetch.max.bytes", "fetch.min.bytes", "max.partition.fetch.bytes", "batch.size"])
def test_limits_that_java_s_clients_take_are_taken(name: str, value: str) -> None:
    make, kind = (writing_settings, "Producer") if name == "batch.size" else (reading_settings, "Consumer")
    make_client(kind, "spout 'any'", make("spout 'any'", "here:9092", {f"kafka.{name}": value}))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Consumer", "max.partition.fetch.bytes", "9999999999"),
        ("Consumer", "fetch.max.bytes", "2147483647"),
        ("Consumer", "fetch.max.bytes", "many"),
        ("Producer", "linger.ms", "99999999"),
        ("Producer", "compression.type", "zip"),
        ("Producer", "max.request.size", "9999999999"),
    ],
)
def test_what_librdkafka_does_not_take_is_told_by_the_name_of_the_option(kind: str, name: str, value: str) -> None:
    make = reading_settings if kind == "Consumer" else writing_settings
    with pytest.raises(ConfigError, match=f"spout 'any': librdkafka does not take .*[\"`]{re.escape(name)}[\"`]"):
        make_client(kind, "spout 'any'", make("spout 'any'", "here:9092", {f"kafka.{name}": value}))
