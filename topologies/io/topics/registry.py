"""Schemas in a registry: fetched once by each process, and kept."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from topologies.io.messages.message import Unreadable
from topologies.io.topics.protobuf_shapes import WELL_KNOWN, serialized_file
from windowing.errors import ConfigError, UnreachableError, WindboltError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

FRAME = 5
"""Bytes before a value: 0, and the id of its schema in four."""
MAGIC = 0
_TIMEOUT = 10
"""Seconds for an answer, unless the settings say another number."""
_SOON = 3
"""The same where somebody waits for a look at a topology."""
_TRIES = "max.retries"
"""The setting for how often a client asks again: three times, with pauses, unless it says another number."""
_WITHOUT = frozenset({404, 40401, 40402, 40403})
"""Codes of what a registry does not have."""


@dataclass(frozen=True)
class Registry:
    """A schema registry: its address, and the settings of its client."""

    url: str
    settings: tuple[tuple[str, Any], ...] = field(default=(), repr=False)  # they may contain passwords

    def __hash__(self) -> int:  # settings may be dicts
        return hash(self.url)

    def __repr__(self) -> str:
        return f"Registry({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without what may be a password in it."""
        return ",".join(_bare(each) for each in self.url.split(","))

    def asked_once(self) -> Registry:
        """The same registry, which is asked once, and soon given up."""
        settings = dict(self.settings)
        given = settings.get("timeout")
        seconds = min(given, _SOON) if isinstance(given, int | float) else _SOON
        return replace(self, settings=(*({**settings, "timeout": seconds, _TRIES: 0}).items(),))


def _bare(url: str) -> str:
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def checked_registry(given: str | Mapping[str, Any] | Registry) -> Registry:
    """A registry by its address, or by the settings of confluent-kafka's client. Raises ConfigError for what is
    neither, and EnvironmentMissing where the client is not installed."""
    if isinstance(given, Registry):
        return given
    settings = {"url": given} if isinstance(given, str) else dict(given)
    url = settings.pop("url", None)
    if not isinstance(url, str) or not all(each.strip().startswith(("http://", "https://")) for each in url.split(",")):
        raise ConfigError(
            f"{_shown(given)} is no schema registry",
            why="a registry is an address, or settings of confluent-kafka's client, of which url is one",
            do="write registry='http://registry:8081', or registry={'url': 'https://...', "
            "'basic.auth.user.info': 'user:password'}",
        )
    refuse_missing("confluent_kafka", "a schema registry")
    registry = Registry(url, tuple(sorted(settings.items())))
    _checked_settings(registry)
    return registry


def _shown(given: object) -> str:
    return repr(sorted(given)) if isinstance(given, Mapping) else f"{given!r:.60}"


def _checked_settings(registry: Registry) -> None:
    try:
        client_of(registry)
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(
            f"the settings of the registry {registry.shown} are wrong: {error}",
            do="use those of confluent-kafka's SchemaRegistryClient",
        ) from None


def refuse_missing(package: str, what: str) -> None:
    """Raise ConfigError where a package of the extra ``topics`` is not installed."""
    names = {"confluent_kafka": ("confluent_kafka", "authlib", "cachetools"), "google.protobuf": ("google.protobuf",)}
    missing = [name for name in names[package] if not _is_there(name)]
    if missing:
        raise ConfigError(
            f"{what} needs the package {missing[0].split('.')[0]!r}, which is not installed",
            why="windbolt itself does without it",
            do="install it: pip install 'windbolt[topics]', for the workers too",
        )


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


# The client, and what it has been told. A process has one client for each registry.


@dataclass(frozen=True)
class Registered:
    """A schema as it is registered."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    """The schema; of Protobuf a serialized file in base64."""
    references: tuple[tuple[str, str], ...]
    """The schemas that it names, each before those that use it: the name that is used, and the text."""


_LOCK = threading.RLock()
_SCHEMAS: dict[tuple[int, Registry, int], Registered] = {}


def schema_of(registry: Registry, number: int, *, serialized: bool = False) -> Registered:
    """The schema of an id; ``serialized``: compiled, as those of Protobuf are needed.

    Raises Unreadable where the registry has none, UnreachableError where it does not answer.
    """
    key = (os.getpid(), registry, number)
    with _LOCK:
        found = _SCHEMAS.get(key)
        if found is None:
            with answering(registry):
                found = _SCHEMAS[key] = _fetched(client_of(registry), number, "serialized" if serialized else None)
        return found


@contextmanager
def answering(registry: Registry) -> Iterator[None]:
    """Turn what the client raises into UnreachableError, or Unreadable where the registry does not have what was asked
    for."""
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

    try:
        yield
    except WindboltError:
        raise
    except SchemaRegistryError as error:
        if error.error_code in _WITHOUT or (error.http_status_code == 404 and error.error_code == -1):
            raise Unreadable(f"the registry {registry.shown} has no such schema: {error.error_message}") from None
        refused = error.http_status_code in (401, 403)
        raise UnreachableError(
            f"the registry {registry.shown} {'refuses to answer' if refused else 'does not answer as it should'}",
            why=f"{error.error_message} (HTTP {error.http_status_code})",
            do="give its settings the right to read: registry={'url': ..., 'basic.auth.user.info': ...}"
            if refused
            else "see to its address, and that it runs; a run goes on where it was",
            transient=not refused,
        ) from error
    except (OSError, OAuthTokenError, ValueError) as error:
        raise _away(registry, error) from error
    except AttributeError as error:
        if error.name is None or error.obj is not None:
            raise
        raise _away(registry, error) from error  # the client makes None of an answer without content, and uses it
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        raise _away(registry, error) from error


def _away(registry: Registry, error: Exception) -> UnreachableError:
    settings, why = dict(registry.settings), str(error) or type(error).__name__
    if settings.get(_TRIES) == 0:
        why += f"; it was asked once, with {settings.get('timeout', _TIMEOUT)} seconds for an answer"
    return UnreachableError(
        f"the registry {registry.shown} does not answer",
        why=why,
        do="see to its address, and that it runs; a run goes on where it was",
        transient=True,
    )


@lru_cache(maxsize=32)
def _of_process(registry: Registry, process: int) -> SchemaRegistryClient:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"timeout": _TIMEOUT, **dict(registry.settings), "url": registry.url})


def client_of(registry: Registry) -> SchemaRegistryClient:
    """This process's client of a registry."""
    return _of_process(registry, os.getpid())


def _fetched(client: SchemaRegistryClient, number: int, form: str | None) -> Registered:
    found = client.get_schema(number, fmt=form)
    return Registered(found.schema_type or "AVRO", str(found.schema_str), references_of(client, found, form))


def references_of(client: SchemaRegistryClient, schema: Any, form: str | None) -> tuple[tuple[str, str], ...]:
    """The schemas that one names, each before those that use it: the name that is used, and the text."""
    found: dict[tuple[str, str], None] = {}
    _add_references(client, schema, form, found, ())
    return tuple(found)


def _add_references(
    client: SchemaRegistryClient,
    schema: Any,
    form: str | None,
    found: dict[tuple[str, str], None],
    within: tuple[str, ...],
) -> None:
    for reference in schema.references or ():
        name = str(reference.name)
        if name in within:
            raise Unreadable(f"the schemas {' and '.join(within)} refer to each other")
        version = client.get_version(reference.subject, reference.version, fmt=form)
        _add_references(client, version.schema, form, found, (*within, name))
        found[name, str(version.schema.schema_str)] = None


def files_of_registered(schema: Registered, number: int) -> list[bytes]:
    """The files of a schema of Protobuf, each after those that it imports."""
    return [*files_of_references(schema.references), serialized_file(schema.text, f"windbolt-{number}.proto")]


def files_of_references(references: Sequence[tuple[str, str]]) -> list[bytes]:
    """The files that a schema of Protobuf imports, without those that Protobuf itself brings along."""
    known = {f"google/protobuf/{name}.proto" for name in WELL_KNOWN}
    return [serialized_file(text, name) for name, text in references if name not in known]
