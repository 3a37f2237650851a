"""A real Prometheus: that on the PATH, or else Debian's package, unpacked into the user's cache.

``python -m servers.prometheus`` fetches it if that is needed, and prints where its programs lie. Nothing is installed:
a service that listens at port 9090 is not wanted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from servers.processes import free_port, wait_for

_UP = 30
"""Seconds in which a server must be up."""
_HOW = (
    "install it (Debian: apt install prometheus; others: https://prometheus.io/download), or set PROMETHEUS to the"
    " folder that holds prometheus and promtool"
)


def program(name: str) -> str:
    """Returns the path of ``prometheus`` or ``promtool``; fetched if it is not there. RuntimeError if that cannot
    be."""
    return str(folder() / name)


def folder() -> Path:
    """Returns the folder with both programs: the one in PROMETHEUS, on the PATH, or in the cache. Raises
    RuntimeError."""
    on_path = shutil.which("promtool")
    given = os.environ.get("PROMETHEUS") or (on_path and shutil.which("prometheus") and os.path.dirname(on_path))
    if given:
        return Path(given)
    cached = _cache() / "usr/bin"
    if not (cached / "promtool").exists():
        _unpack()
    return cached


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt", "prometheus")


def _unpack() -> None:
    """Fetch Debian's package, and unpack it; whoever is first puts it into its place."""
    target = _cache()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        try:
            if not _fetched(draft) and os.geteuid() == 0:
                subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
                _fetched(draft)
            (package,) = Path(draft).glob("*.deb")
            unpacked = Path(draft) / "unpacked"
            subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True, capture_output=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise RuntimeError(
                f"Prometheus is missing, and Debian's package could not be had ({error}): {_HOW}"
            ) from error
        with contextlib.suppress(OSError):  # another process was faster
            os.rename(unpacked, target)


def _fetched(into: str) -> bool:
    done = subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=into, capture_output=True, check=False)
    return done.returncode == 0


class Server:
    """A server of this process's own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str, at: float | None = None) -> dict[frozenset[tuple[str, str]], float]:
        """Runs an instant query; returns the values by their labels. ``at``: seconds since the epoch, or now."""
        asked = {"query": expression} | ({} if at is None else {"time": str(at)})
        data = self._ask("query", asked)
        assert data["resultType"] == "vector", data
        return {frozenset(each["metric"].items()): float(each["value"][1]) for each in data["result"]}

    def alerts(self) -> list[dict[str, Any]]:
        """Returns the alerts that are pending or firing."""
        found: list[dict[str, Any]] = self._ask("alerts", {})["alerts"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Returns the rules, each with its health and its last error."""
        return [rule for group in self._ask("rules", {})["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """Returns the targets that are scraped, each with its last error."""
        found: list[dict[str, Any]] = self._ask("targets", {})["activeTargets"]
        return found

    def _ask(self, what: str, asked: Mapping[str, str]) -> Any:
        with urlopen(f"{self.url}/api/v1/{what}?{urlencode(asked)}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]


@contextlib.contextmanager
def server(targets: Sequence[str], rules: Sequence[Path] = (), *, job: str = "windbolt") -> Iterator[Server]:
    """A server that scrapes these addresses every second, and evaluates these rules, until the end of the block."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="windbolt-prometheus-") as name:
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rule.resolve()) for rule in rules],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": list(targets)}]}],
        }
        (Path(name) / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
        with open(Path(name) / "log", "w+", encoding="utf-8") as log, _started(name, port, log) as process:
            try:
                found = Server(f"http://127.0.0.1:{port}")
                wait_for("Prometheus", lambda: _is_ready(found), _UP, process, Path(name) / "log")
                yield found
            finally:
                process.terminate()
                process.wait(30)


def _started(name: str, port: int, log: Any) -> subprocess.Popen[bytes]:
    command = [
        program("prometheus"),
        f"--config.file={name}/prometheus.yml",
        f"--storage.tsdb.path={name}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    return subprocess.Popen(command, cwd=name, stdout=log, stderr=log)


def _is_ready(server: Server) -> bool:
    with urlopen(f"{server.url}/-/ready", timeout=5):
        return True


def main() -> None:
    """The command."""
    try:
        print(folder())
    except RuntimeError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
