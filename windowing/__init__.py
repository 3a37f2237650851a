"""The basic types of windbolt, the base classes of bolts and spouts, and the settings of windows."""

from windowing import aggregates
from windowing.bolts.aggregate_bolt import AggregateBolt, Rank, TopN
from windowing.bolts.bolt import BatchBolt, Bolt, StatefulBatchBolt, StatefulBolt, TaskContext
from windowing.bolts.joins import TemporalJoin, WindowJoin
from windowing.bolts.passing import AlterLifetime, Changes, Deduplicate, RateLimit, ShiftTime, Silence, Union
from windowing.bolts.windowed_bolt import BatchWindowedBolt, StatefulWindowedBolt, WindowedBolt
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration, days, hours, micros, millis, minutes, parse_duration, seconds
from windowing.errors import (
    BoltError,
    CheckpointError,
    ConfigError,
    DamagedCheckpoint,
    DataError,
    EnvironmentMissing,
    ScenarioError,
    SchemaError,
    SinkError,
    SpoutError,
    StorageError,
    TopologyError,
    WindboltError,
)
from windowing.events import Events, Tuple
from windowing.schema import Emit
from windowing.settings import kinds, panes, presets, triggers
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.rules import SOURCE, Arrival, Bounds
from windowing.spout import PartitionedSpout, Spout
from windowing.window import TupleWindow, WindowBatch

__all__ = [
    "SOURCE",
    "AggregateBolt",
    "AlterLifetime",
    "Arrival",
    "BatchBolt",
    "BatchWindowedBolt",
    "Bolt",
    "BoltError",
    "Bounds",
    "Calendar",
    "Changes",
    "CheckpointError",
    "ConfigError",
    "Count",
    "CountByStart",
    "DamagedCheckpoint",
    "DataError",
    "DayTime",
    "Deduplicate",
    "Duration",
    "Emit",
    "EnvironmentMissing",
    "Events",
    "Hopping",
    "Panes",
    "PartitionedSpout",
    "Rank",
    "RateLimit",
    "ScenarioError",
    "SchemaError",
    "Session",
    "ShiftTime",
    "Silence",
    "SinkError",
    "SlidingLog",
    "Snapshot",
    "Spout",
    "SpoutError",
    "StatefulBatchBolt",
    "StatefulBolt",
    "StatefulWindowedBolt",
    "StorageError",
    "TaskContext",
    "TemporalJoin",
    "TopN",
    "TopologyError",
    "Tuple",
    "TupleWindow",
    "Union",
    "WindboltError",
    "WindowBatch",
    "WindowJoin",
    "WindowedBolt",
    "aggregates",
    "days",
    "hours",
    "kinds",
    "micros",
    "millis",
    "minutes",
    "panes",
    "parse_duration",
    "presets",
    "seconds",
    "triggers",
]
