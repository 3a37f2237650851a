"""A schema registry over HTTP, in memory: subjects, versions, ids, references, compatibility, and how it fails."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_WIDER = {"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "string": {"bytes"}}


@dataclass
class Registry:
    """The content of a registry, and the requests it got."""

    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """By their ids, from 1 on."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    """The ids of the versions of each."""
    levels: dict[str, str] = field(default_factory=dict)
    """BACKWARD, or NONE, of subjects."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each path was asked for."""
    failing: list[int] = field(default_factory=list)
    """The statuses of the next answers, instead of what was asked for."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set."""
    user: str | None = None
    """``user:password`` that must be given; None where anyone may ask."""

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: tuple[Any, ...] = ()) -> int:
        """The id of a schema, which is the next version of a subject unless it is one already. KeyError where it is
        not compatible with the last version."""
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
        """True if readers with the schema can read what was written by the last version: of Avro's records at the top,
        fields that are new have a default, and types stay or become wider."""
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
