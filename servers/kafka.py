"""Kafka on this machine, for tests and benchmarks: a broker of one node, a schema registry, and a client of the broker.

    python -m servers.kafka [--port 9092] [--registry PORT] [--settings FILE]
                            [TOPIC[:PARTITIONS] ...]

It prints where the broker listens, and runs until Ctrl-C; what it was given is gone afterwards. Topics are made only by
those who ask for them. With ``--until-eof`` it ends with its standard input, and so with the process that started it,
however that ends.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from servers.java import ROOT, jars, java_command
from servers.processes import listens, wait_for

# A schema registry over HTTP, in memory: subjects, versions, ids, references, compatibility, and how it fails.


_WIDER = {"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "string": {"bytes"}}


@dataclass
class Registry:
    """The content of a registry, and the requests it got."""

    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """By their ids, from 1 on."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    """The ids of the versions of each subject."""
    levels: dict[str, str] = field(default_factory=dict)
    """BACKWARD, or NONE, of subjects."""
    asked: Counter[str] = field(default_factory=Counter)
    """Number of requests for each path."""
    failing: list[int] = field(default_factory=list)
    """Status codes for the next answers, in place of the requested content."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set."""
    user: str | None = None
    """``user:password`` that must be given; None if anyone may ask."""

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: tuple[Any, ...] = ()) -> int:
        """Returns the id of a schema, which is the next version of a subject unless it is one already. Raises KeyError
        if it is not compatible with the last version."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        if not self.fits(subject, body):
            raise KeyError("incompatible")
        number = self.schemas.index(body) + 1 if body in self.schemas else len(self.schemas) + 1
        if number > len(self.schemas):
            self.schemas.append(body)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def fits(self, subject: str, body: dict[str, Any]) -> bool:
        """True if readers with the schema can read data of the last version: in Avro's records at the top, new fields
        have a default, and types stay or become wider."""
        versions = self.subjects.get(subject)
        if not versions or self.levels.get(subject, "BACKWARD") == "NONE" or body["schemaType"] != "AVRO":
            return True
        old, new = json.loads(self.schemas[versions[-1] - 1]["schema"]), json.loads(body["schema"])
        if not (isinstance(old, dict) and isinstance(new, dict) and old.get("type") == new.get("type") == "record"):
            return bool(old == new)
        had = {each["name"]: each["type"] for each in old["fields"]}
        return all(
            _reads(each["type"], had[each["name"]]) if each["name"] in had else "default" in each
            for each in new["fields"]
        )


def _reads(new: Any, old: Any) -> bool:
    if isinstance(new, list):
        return all(any(_reads(branch, each) for branch in new) for each in (old if isinstance(old, list) else [old]))
    return bool(new == old) or (isinstance(old, str) and isinstance(new, str) and new in _WIDER.get(old, ()))


@contextmanager
def registry(user: str | None = None, port: int = 0) -> Iterator[Registry]:
    """A registry on this machine, until the block ends. ``port``: 0 for any that is free."""
    served = Registry(user=user)
    served.gate.set()

    class Handler(_Handler):
        registry = served

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    registry: Registry

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        served, url = self.registry, urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        served.gate.wait()
        served.asked[f"{self.command} {url.path}"] += 1
        kind, _, sent = self.headers.get("Authorization", "").partition(" ")
        given = base64.b64decode(sent).decode() if kind == "Basic" else None
        if served.failing:
            status = served.failing.pop(0)
            self._send(status, {"error_code": status * 100 + 1, "message": "it fails"})
        elif served.user is not None and given != served.user:
            self._send(401, {"error_code": 40101, "message": "Unauthorized"})
        else:
            self._send(*self._reply([unquote(part) for part in url.path.strip("/").split("/")], body))

    def _reply(self, parts: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        served = self.registry
        body = {"schemaType": "AVRO", "references": [], **body}
        schema: dict[str, Any] = {name: body.get(name) for name in ("schema", "schemaType", "references")}
        match self.command, *parts:
            case "GET", "schemas", "ids", number:
                if not 0 < int(number) <= len(served.schemas):
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, served.schemas[int(number) - 1]
            case "GET", "subjects":
                return 200, sorted(served.subjects)
            case "GET", "subjects", subject, "versions", version:
                return self._version(subject, version)
            case "POST", "subjects", subject, "versions":
                try:
                    made = served.register(subject, schema["schema"], schema["schemaType"], tuple(schema["references"]))
                except KeyError:
                    return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
                return 200, {"id": made}
            case "POST", "subjects", subject:
                for place, known in enumerate(served.subjects.get(subject, []), 1):
                    if served.schemas[known - 1] == schema:
                        return 200, {"subject": subject, "id": known, "version": place, **schema}
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "POST", "compatibility", "subjects", subject, "versions", _:
                if subject not in served.subjects:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                return 200, {"is_compatible": served.fits(subject, schema)}
            case "PUT", "config", subject:
                served.levels[subject] = body["compatibility"]
                return 200, {"compatibility": body["compatibility"]}
            case "GET", "config", subject:
                return 200, {"compatibilityLevel": served.levels.get(subject, "BACKWARD")}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        numbers = self.registry.subjects.get(subject)
        if numbers is None:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        place = len(numbers) if version in ("latest", "-1") else int(version)
        if not 0 < place <= len(numbers):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = numbers[place - 1]
        return 200, {"subject": subject, "version": place, "id": number, **self.registry.schemas[number - 1]}

    def _send(self, status: int, answer: Any) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# The broker.


_START = 60
"""Seconds within which it must be up."""
_CLUSTER = "d2luZGJvbHQtYnJva2VyLQ"
"""The id of each cluster: 16 bytes in base64 for URLs. One drawn at random begins with a dash once in 64 times, and
Kafka's tool then takes it for an option."""
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
"""


TO_NEW_TOPICS: dict[str, str | int | float | bool] = {
    "log_level": 0,
    "enable.idempotence": True,
    "max.in.flight": 1,
}
"""Settings of a producer whose records all arrive, once and in order, also at a topic that has just been made.

With two requests on their way the broker may refuse the first, as it has no log for the partition yet, and accept the
second as the first that it sees of this producer (KAFKA-15591). It then refuses the first for good, and the client
reports its records as delivered."""


class RunningBroker:
    """A broker in a process of its own, which can be away for a while."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process, self.address = process, address

    def stop(self) -> None:
        """Kill it, as a failure of the machine would; its data stays on its disk."""
        self._ask("stop", "stopped")

    def start(self) -> None:
        """Start it again, at the same address, with its data; returns when it answers."""
        self._ask("start", "listening")

    def _ask(self, what: str, answer: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, file=self._process.stdin, flush=True)
        output = self._process.stdout.readline()
        assert output.startswith(answer), output


@contextlib.contextmanager
def broker(topics: Sequence[str] = ()) -> Iterator[str]:
    """A broker in a process of its own; its address. It ends with the block, or with this process."""
    with running_broker(topics) as running:
        yield running.address


@contextlib.contextmanager
def running_broker(topics: Sequence[str] = (), settings: Path | None = None) -> Iterator[RunningBroker]:
    """A broker that can be away for a while; it ends with the block, or with this process. ``settings``: a file with
    more settings."""
    more = [] if settings is None else ["--settings", str(settings)]
    command = [sys.executable, "-m", "servers.kafka", "--port", "0", "--until-eof", *more, *topics]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        output = process.stdout.readline()
        if not output.startswith("listening at "):
            process.wait()
            errors.seek(0)
            raise RuntimeError(f"the broker did not start:\n{output}{errors.read()[-2000:]}")
        yield RunningBroker(process, output.split()[-1])


def serve(port: int, topics: Sequence[str], *, until_eof: bool, more: str = "") -> None:
    """Run until asked to stop. ``more``: settings beside the usual ones, or instead of them; ``{port}`` and
    ``{controller}`` in them are its ports."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _check_free(port)
    path = os.pathsep.join(jars("broker"))
    folder = Path(tempfile.mkdtemp(prefix="windbolt-broker-"))
    java: subprocess.Popen[bytes] | None = None
    try:
        port, controller = _free_ports(port)
        settings = folder / "server.properties"
        settings.write_text(
            (_SETTINGS + more).format(port=port, controller=controller, folder=folder.as_posix()), "utf-8"
        )
        with open(folder / "said", "a", encoding="utf-8") as output:
            tool = [java_command(), *_JAVA, "-cp", path]
            form = [*tool, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
            if subprocess.run(form, check=False, stdout=output, stderr=output).returncode:
                raise _not_started(folder / "said")
        java = _begun([*tool, "kafka.Kafka", str(settings)], port, folder / "said")
        _make(f"127.0.0.1:{port}", topics)
        print(f"listening at 127.0.0.1:{port}", flush=True)
        if until_eof:
            for line in sys.stdin:
                if line.strip() == "stop":
                    java.kill()
                    java.wait()
                    print("stopped", flush=True)
                else:
                    java = _begun([*tool, "kafka.Kafka", str(settings)], port, folder / "said")
                    _make(f"127.0.0.1:{port}", ())
                    print(f"listening at 127.0.0.1:{port}", flush=True)
        else:
            java.wait()
            raise SystemExit(f"the broker has ended:\n{(folder / 'said').read_text('utf-8')[-2000:]}")
    finally:
        if java is not None:
            java.kill()
            java.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _begun(command: Sequence[str], port: int, path: Path) -> subprocess.Popen[bytes]:
    """Returns a broker that has been started, and listens."""
    with open(path, "a", encoding="utf-8") as output:
        java = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=os.name != "nt")
    try:
        wait_for("the broker", lambda: listens(port), _START, java, path)
    except BaseException:
        java.kill()
        java.wait()
        raise
    return java


def _not_started(output: Path) -> SystemExit:
    return SystemExit(f"the broker did not start:\n{output.read_text('utf-8')[-2000:]}")


def _make(servers: str, topics: Sequence[str]) -> None:
    """Make topics, and so find out that the broker answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for left in reversed(range(_START)):
        try:
            admin.list_topics(timeout=1)
            break
        except KafkaException:
            if not left:
                raise
    named = [each.partition(":") for each in topics]
    wanted = [NewTopic(topic, int(partitions or 1), 1) for topic, _, partitions in named]
    for done in admin.create_topics(wanted).values() if wanted else ():
        done.result(30)


def _check_free(port: int) -> None:
    with socket.socket() as one:
        if os.name != "nt":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended are no hindrance
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            state = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
            raise SystemExit(f"port {port} {state}: stop what listens there, or give --port") from None


def _free_ports(port: int) -> tuple[int, int]:
    """Returns the port that was asked for, or any, and another one."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return port or int(one.getsockname()[1]), int(two.getsockname()[1])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="broker", description="A Kafka broker on this machine, until Ctrl-C.")
    parser.add_argument("topics", nargs="*", metavar="TOPIC[:PARTITIONS]", help="topics to make")
    parser.add_argument("--port", type=int, default=9092, help="where to listen; 0: any free port")
    parser.add_argument("--settings", type=Path, help="a file with more settings of the broker")
    parser.add_argument("--until-eof", action="store_true", help="end with the standard input")
    parser.add_argument("--registry", type=int, metavar="PORT", help="a schema registry beside it, at this port")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as beside:
        if given.registry is not None:
            _check_free(given.registry)
            print(f"schema registry at {beside.enter_context(registry(port=given.registry)).url}", flush=True)
        more = "" if given.settings is None else given.settings.read_text("utf-8")
        try:
            serve(given.port, given.topics, until_eof=given.until_eof, more=more)
        except RuntimeError as error:  # it does not start
            sys.exit(str(error))


# A client of the broker: makes topics, writes records, reads all that topics hold.


ID = "windbolt-id"
"""The header that has the id of a record of windbolt's."""


@dataclass(frozen=True)
class Record:
    """A record that was read."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def id(self) -> str:
        """Without the part that names the run."""
        topology, _, *rest = self._id.split("/")
        return "/".join([topology, *rest])

    @property
    def origin(self) -> str:
        """The part of the id that names the run in which the batch was begun."""
        found = self._id.split("/")[1]
        assert re.fullmatch("[0-9a-f]{8}", found)
        return found

    @property
    def _id(self) -> str:
        name, value = self.headers[-1]
        assert name == ID
        assert value is not None
        return value.decode()


class Kafka:
    """A running broker, for its clients on this machine."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producer = Producer({**TO_NEW_TOPICS, "bootstrap.servers": servers, "linger.ms": 0})
        self._number, self._lock = 0, threading.Lock()

    def close(self) -> None:
        """Let go of the broker."""
        del self.admin, self._producer

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Returns a new topic whose name nobody else has; ``config``: its settings, with underscores for dots."""
        with self._lock:
            self._number += 1
            topic = f"{name}-{self._number}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        return topic

    def make_anew(self, topic: str) -> Kafka:
        """Delete a topic and make one with the same name; returns a client that does not know the old one."""
        self.admin.delete_topics([topic])[topic].result(30)
        for left in reversed(range(300)):  # the broker is still deleting
            try:
                self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
                break
            except KafkaException:
                if not left:
                    raise
                self.admin.list_topics(timeout=30)
        return Kafka(self.servers)

    def produce(self, topic: str, values: Iterable[bytes | str | None], partition: int = 0, **more: Any) -> None:
        """Write records to one partition; ``more``: key, headers, timestamp."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, **more)
        assert self._producer.flush(30) == 0

    def produce_all(self, topic: str, records: Iterable[tuple[int, int, bytes | str | None]]) -> None:
        """Write records in this order: the partition, the timestamp in milliseconds, the value."""
        self.produce_with_keys(topic, ((partition, at, None, value) for partition, at, value in records))

    def produce_with_keys(
        self, topic: str, records: Iterable[tuple[int, int, bytes | None, bytes | str | None]]
    ) -> None:
        """The same with keys as well as values; timestamp 0 is now."""
        for partition, timestamp, key, value in records:
            while True:
                try:
                    self._producer.produce(topic, value, key, partition, timestamp=timestamp)
                    break
                except BufferError:  # so many are under way
                    self._producer.poll(0.1)
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Delete records, as if they had become too old."""
        place = TopicPartition(topic, partition, before)
        for done in self.admin.delete_records([place]).values():
            done.result(30)

    def records(self, *topics: str) -> list[Record]:
        """All that topics hold."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False})
        found: list[Record] = []
        try:
            for topic in topics:
                for number in consumer.list_topics(topic, 30).topics[topic].partitions:
                    first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
                    consumer.assign([TopicPartition(topic, number, first)])
                    left = end - first
                    while left:
                        for message in consumer.consume(left, 30):
                            assert message.error() is None
                            left -= 1
                            headers: Any = tuple(message.headers() or ())
                            found.append(Record(topic, number, message.key(), message.value(), headers))
        finally:
            consumer.close()
        return found


if __name__ == "__main__":
    main()
