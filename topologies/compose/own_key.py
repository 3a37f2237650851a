"""Inputs that are grouped by the key that their bolt has anyway: ``fields_grouping(component)`` without fields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from topologies.graph.groupings import FieldsGrouping
from topologies.graph.streams import Input, stream_label
from windowing.bolts.joins.join import Join
from windowing.bolts.windowed_bolt import WindowedBolt

if TYPE_CHECKING:
    from topologies.compose.declarers import BoltDeclarer


def grouped_by_own_key(declarer: BoltDeclarer) -> BoltDeclarer:
    """The bolt with fields for its inputs that are grouped by none; they stay without where it has no key."""
    bolt = declarer.bolt
    if not isinstance(bolt, WindowedBolt):
        return declarer
    return replace(declarer, inputs=[_grouped(each, bolt) for each in declarer.inputs])


def _grouped(read: Input, bolt: WindowedBolt) -> Input:
    if read.grouping != FieldsGrouping(()):
        return read
    return replace(read, grouping=FieldsGrouping(_own_key(bolt, stream_label(read.stream))))


def _own_key(bolt: WindowedBolt, stream: str) -> tuple[str, ...]:
    """The columns of a stream by which a bolt tells its events apart; none where it does not."""
    if isinstance(bolt, Join):
        return bolt.keys_by_stream.get(stream, ())
    return bolt.settings.key or bolt.groups_by or ()
