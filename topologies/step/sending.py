"""What rules made, as messages to be sent: where each goes, with which key, headers and bytes (UH-24 to UH-32)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topologies.step.columns import Row, header_bytes
from topologies.step.config.connecting import is_topic
from topologies.step.rules import Event, Out
from windowing.rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.messages import MessageFormat


_ID = 1_000
"""Bytes that the id and Kafka's own bookkeeping may add to a message."""


class Unsendable(ValueError):
    """What rules made that cannot be sent; ``str()`` says why."""


@dataclass(frozen=True)
class Sender:
    """Writes what rules made."""

    messages: MessageFormat
    topic: str
    """Of the destination; TargetTopic goes before it."""
    branches: Mapping[str, tuple[str, str]]
    """By name, the stream and the topic of each."""
    limit: int | None = None
    """Bytes that a message may have, key and headers with it; None: any number."""

    def message(self, out: Out) -> tuple[str, Row]:
        """The stream and the message of an event; Unwritable or Unsendable where there is none."""
        stream, topic = self._way(out)
        headers = [{"key": name, "value": text.encode()} for name, text in (out.headers or {}).items()]
        value = self.messages.write(out.value, header_bytes(headers))
        return stream, self._small({"topic": topic, "key": _encoded(out.key), "value": value, "headers": headers})

    def unchanged(self, out: Out, row: Row, event: Event, *, same_format: bool) -> tuple[str, Row]:
        """The message that came in, with what the rules changed of it (UH-27); its bytes, where the format is the same.

        Keys and headers that are as they were keep their bytes, and headers that came twice come twice.
        """
        stream, topic = self._way(out)
        now = dict(out.headers or {})
        kept = [each for each in row["headers"] or () if now.get(each["key"]) == event.headers[each["key"]]]
        new = {name: text for name, text in now.items() if event.headers.get(name) != text}
        headers = kept + [{"key": name, "value": text.encode()} for name, text in new.items()]
        key = row["key"] if out.key == event.key else _encoded(out.key)
        value = row["value"] if same_format else self.messages.write(event.value, header_bytes(headers))
        return stream, self._small({"topic": topic, "key": key, "value": value, "headers": headers})

    def _small(self, row: Row) -> Row:
        """The message, if Kafka will take it: one that is too large would stop the run, again and again."""
        if self.limit is not None:
            size = len(row["value"] or b"") + len(row["key"] or b"") + _ID
            size += sum(len(each["key"]) + len(each["value"] or b"") for each in row["headers"])
            if size > self.limit:
                raise Unsendable(f"a message of {size} bytes, and Kafka takes {self.limit} (max.request.size)")
        return row

    def _way(self, out: Out) -> tuple[str, str]:
        stream, topic = DEFAULT_STREAM, self.topic
        if out.branch is not None:
            if out.branch not in self.branches:
                known = ", ".join(self.branches) or "none"
                raise Unsendable(f"BranchName {out.branch!r:.80}: there is no such branch; there are: {known}")
            stream, topic = self.branches[out.branch]
        if out.topic is not None and not is_topic(out.topic):
            raise Unsendable(f"TargetTopic {out.topic!r:.80} cannot be the name of a topic")
        return stream, out.topic or topic


def _encoded(key: str | None) -> bytes | None:
    return None if key is None else key.encode()
