"""Turns what rules made into messages: where each goes, with which key, headers and bytes (UH-24 to UH-32)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topologies.io.dead_letters import size_of
from topologies.io.messages import AvroMessages
from topologies.step.bolts.step_columns import MessageRow, Pairs, header_bytes
from topologies.step.config.connecting import is_topic
from topologies.step.rules import Event, Out, RuleError
from topologies.step.rules.headers import header_pairs
from windowing.data.returned_rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.io.messages import MessageFormat


class Unsendable(RuleError):
    """The result of a rule that cannot be sent."""


@dataclass(frozen=True)
class Way:
    """Where messages go: to a topic, or to the next step of the run."""

    topic: str
    """The topic of messages for which the rules give no TargetTopic."""
    stream: str = DEFAULT_STREAM
    limit: int | None = None
    """Maximum size of a message in bytes, with key and headers; None for no limit, where it does not go to Kafka."""
    sources: frozenset[str] = frozenset()
    """Topics that the first step reads, and to which rules must not send on this way."""


@dataclass(frozen=True)
class Sender:
    """Turns what rules made into messages."""

    messages: MessageFormat
    way: Way
    """The main way."""
    branches: Mapping[str, Way] = field(default_factory=dict)
    """The branches, by name."""

    def message(self, out: Out) -> tuple[str, MessageRow]:
        """The stream and the message of an event. Raises Unwritable or Unsendable where there is none."""
        way, topic = self._way(out)
        headers = header_pairs(out.headers)
        key, value = _encoded(out.key), self._value(out, headers)
        return way.stream, _small({"topic": topic, "key": key, "value": value, "headers": headers}, way.limit)

    def unchanged(self, out: Out, row: MessageRow, event: Event, *, same_format: bool) -> tuple[str, MessageRow]:
        """The incoming message with the changes of the rules (UH-27); its bytes stay if the format is the same, and the
        schema that the headers name.

        Unchanged keys and headers keep their bytes, and repeated headers stay repeated.
        """
        way, topic = self._way(out)
        came = {header["key"]: header["value"] for header in header_pairs(event.headers)}
        now = header_pairs(out.headers)
        same = {header["key"] for header in now if header["key"] in came and came[header["key"]] == header["value"]}
        kept = [header for header in row["headers"] or () if header["key"] in same]
        headers = kept + [header for header in now if header["key"] not in same]
        key = row["key"] if out.key == event.key else _encoded(out.key)
        before, after = header_bytes(row["headers"]), header_bytes(headers)
        if isinstance(self.messages, AvroMessages):  # a header names the schema of the bytes
            same_format = same_format and self.messages.schema_for(before) == self.messages.schema_for(after)
        value = row["value"] if same_format else self.messages.write(event.value, after)
        return way.stream, _small({"topic": topic, "key": key, "value": value, "headers": headers}, way.limit)

    def _value(self, out: Out, headers: Pairs) -> bytes | None:
        """The bytes of an event; None for a tombstone, which deletes its key."""
        if out.value is not None:
            return self.messages.write(out.value, header_bytes(headers))
        if out.key is None:
            raise Unsendable(
                "a message without a value (a tombstone) takes away what there is of its key: it needs one"
            )
        return None

    def _way(self, out: Out) -> tuple[Way, str]:
        way = self.way
        if out.branch is not None:
            if out.branch not in self.branches:
                known = ", ".join(self.branches) or "none"
                raise Unsendable(f"BranchName {out.branch!r:.80}: there is no such branch; there are: {known}")
            way = self.branches[out.branch]
        if out.topic is not None and not is_topic(out.topic):
            raise Unsendable(f"TargetTopic {out.topic!r:.80} cannot be the name of a topic")
        if out.topic in way.sources:
            raise Unsendable(f"TargetTopic {out.topic!r:.80} is a source of this step: a loop (allowLoops)")
        return way, out.topic or way.topic


def _small(row: MessageRow, limit: int | None) -> MessageRow:
    """The message, if Kafka accepts its size. Raises Unsendable otherwise: a message that is too large would stop every
    run."""
    if limit is not None and (size := size_of(row)) > limit:
        raise Unsendable(f"a message of {size} bytes, and Kafka takes {limit} (max.request.size)")
    return row


def _encoded(key: str | None) -> bytes | None:
    return None if key is None else key.encode()
