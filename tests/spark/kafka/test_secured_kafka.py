"""A broker that asks who is there, and one that speaks TLS, with a certificate made here, on both engines."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from servers.kafka import Kafka, running_broker
from servers.processes import free_port
from tests.spark.engines import ENGINES
from topologies.io.sinks import MemorySink
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import UnreachableError

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.extended]
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{}";'
SCRAM = LOGIN.replace("plain.Plain", "scram.Scram")
PASSWORD = "s;e c=ret"
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@dataclass(frozen=True)
class Secured:
    """A broker, and where it listens for clients that prove who they are."""

    kafka: Kafka
    ports: dict[str, int]
    trusted: Path
    """The certificate of the authority that has signed the broker's and the client's."""
    client: Path
    """The key and the certificate of a client."""
    stranger: Path
    """The certificate of an authority that has signed nothing here."""

    def servers(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def options(self, protocol: str, password: str = PASSWORD, mechanism: str = "PLAIN") -> dict[str, Any]:
        options: dict[str, Any] = {"kafka.security.protocol": protocol}
        if "SASL" in protocol:
            login = LOGIN if mechanism == "PLAIN" else SCRAM
            options |= {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": login.format(password)}
        if "SSL" in protocol:
            options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(self.trusted)}
        if protocol == "SSL":
            options |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": str(self.client)}
        return options


def certificate(folder: Path, name: str, signer: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """A certificate for this machine and its key, in ``name.pem`` without the key and ``name-key.pem`` with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = (subject, key) if signer is None else (signer[0].subject, signer[1])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(issuer[1], hashes.SHA256())
    )
    text = made.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / f"{name}.pem").write_bytes(text)
    (folder / f"{name}-key.pem").write_bytes(secret + text)
    return made, key


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    signer = certificate(folder, "authority")
    certificate(folder, "broker", signer)
    certificate(folder, "client", signer)
    certificate(folder, "stranger")
    protocols = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
    ports = {name: free_port() for name in protocols}
    listeners = "".join(f",{name}://127.0.0.1:{port}" for name, port in ports.items())
    user = LOGIN.format("any").replace(";", f' user_ann="{PASSWORD}";')
    modules = {"plain": user} | {name.lower(): f"{SCRAM.split()[0]} required;" for name in MECHANISMS}
    logins = [
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config={module}\n"
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism, module in modules.items()
    ]
    settings = folder / "more.properties"
    settings.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller}}{listeners}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{{port}}{listeners}\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        f"{','.join(f'{name}:{name}' for name in protocols)}\n"
        f"sasl.enabled.mechanisms={','.join(('PLAIN', *MECHANISMS))}\n"
        f"{''.join(logins)}"
        f"ssl.keystore.type=PEM\nssl.keystore.location={folder / 'broker-key.pem'}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'authority.pem'}\n"
        "listener.name.ssl.ssl.client.auth=required\n",
        "utf-8",
    )
    with running_broker(settings=settings) as running:
        kafka = Kafka(running.address)
        admin = AdminClient({"bootstrap.servers": running.address})
        for mechanism in MECHANISMS.values():  # a broker takes one of a user at a time
            user_with = UserScramCredentialUpsertion("ann", ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
            for made in admin.alter_user_scram_credentials([user_with]).values():
                made.result()
        yield Secured(kafka, ports, *(folder / f"{name}.pem" for name in ("authority", "client-key", "stranger")))
        kafka.close()


def read(engine: str, servers: str, topic: str, options: dict[str, Any], checkpoint: Path) -> list[Any]:
    builder, out = TopologyBuilder("secured"), MemorySink()
    builder.set_spout("in", spouts.kafka(servers, topic, value="text", options=options))
    builder.set_sink("out", out).from_("in")
    ENGINES[engine].run(builder.build(), checkpoint)
    return [row["value"] for row in out.rows]


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SSL", "PLAIN"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_records_are_written_and_read(
    engine: str, protocol: str, mechanism: str, secured: Secured, tmp_path: Path
) -> None:
    topic, servers = secured.kafka.topic(f"{engine}-{protocol}-{mechanism}"), secured.servers(protocol)
    options = secured.options(protocol, mechanism=mechanism)
    builder = TopologyBuilder("secured")
    builder.set_spout("in", spouts.memory("value string", [("a",), ("b",)]))
    builder.set_sink("out", sinks.kafka(servers, topic, options=options)).from_("in")
    ENGINES[engine].run(builder.build(), tmp_path / "written")
    assert [record.value for record in secured.kafka.records(topic)] == [b"a", b"b"]
    assert read(engine, servers, topic, options, tmp_path / "read") == ["a", "b"]


@pytest.mark.parametrize("engine", ENGINES)
def test_who_is_refused_is_told_so_without_the_password(engine: str, secured: Secured, tmp_path: Path) -> None:
    topic = secured.kafka.topic(f"refused-{engine}")
    options = secured.options("SASL_SSL", "wrong;")
    with pytest.raises(UnreachableError, match=r"spout 'in': .*[Aa]uthentication failed") as refused:
        read(engine, secured.servers("SASL_SSL"), topic, options, tmp_path / "user")
    assert "wrong;" not in str(refused.value)
    options = secured.options("SASL_PLAINTEXT", "wrong;", "SCRAM-SHA-256")
    with pytest.raises(UnreachableError, match=r"spout 'in': .*[Aa]uthentication failed") as refused:
        read(engine, secured.servers("SASL_PLAINTEXT"), topic, options, tmp_path / "scram")
    assert "wrong;" not in str(refused.value)
    options = {**secured.options("SSL"), "kafka.ssl.truststore.location": str(secured.stranger)}
    with pytest.raises(UnreachableError, match=r"spout 'in': .*(certificate verify failed|SSL handshake failed)"):
        read(engine, secured.servers("SSL"), topic, options, tmp_path / "certificate")
