"""A Kafka broker of one node on this machine: ``python -m servers.broker``.

    python -m servers.broker [--port 9092] [--registry PORT] [--settings FILE]
                             [TOPIC[:PARTITIONS] ...]

It prints where it listens, and runs until Ctrl-C; what it was given is gone afterwards. Topics are made only by those
who ask for them. With ``--until-eof`` it ends with its standard input, and so with the process that started it, however
that ends.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from servers.jars import ROOT, jars, java_command
from servers.registry import registry

_START = 60
"""Seconds in which it must be up."""
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
        """Kill it, as a machine that fails would; what it was given stays on its disk."""
        self._ask("stop", "stopped")

    def start(self) -> None:
        """Start it again, at the same address, with what it had; returns when it answers."""
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
    command = [sys.executable, "-m", "servers.broker", "--port", "0", "--until-eof", *more, *topics]
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
    ``{controller}`` in them are where it listens."""
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
    """A broker that has been started, and listens."""
    with open(path, "a", encoding="utf-8") as output:
        java = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=os.name != "nt")
    try:
        _wait(java, port, path)
    except BaseException:
        java.kill()
        java.wait()
        raise
    return java


def _wait(java: subprocess.Popen[bytes], port: int, output: Path) -> None:
    for _ in range(_START * 50):
        if java.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise _not_started(output)


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
    """The port that was asked for, or any, and another one."""
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
        serve(given.port, given.topics, until_eof=given.until_eof, more=more)


if __name__ == "__main__":
    main()
