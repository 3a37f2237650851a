"""The vocabulary of windbolt, and what its users subclass and read."""

from windowing import aggregates, kinds, panes, presets, triggers
from windowing.aggregate_bolt import AggregateBolt
from windowing.bolt import BatchBolt, Bolt, StatefulWindowedBolt, TaskContext, WindowedBolt
from windowing.bounds import Bounds
from windowing.daytimes import DayTime
from windowing.durations import (
    Count,
    Duration,
    days,
    hours,
    micros,
    millis,
    minutes,
    parse_duration,
    seconds,
)
from windowing.errors import (
    BoltError,
    CheckpointError,
    ConfigError,
    DamagedCheckpoint,
    DataError,
    EnvironmentMissing,
    ScenarioError,
    SchemaError,
    StorageError,
    TopologyError,
    WindboltError,
)
from windowing.events import Events
from windowing.joins import TemporalJoin
from windowing.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.panes import Panes
from windowing.rows import Emit
from windowing.rules import SOURCE, Arrival
from windowing.shifts import AlterLifetime, ShiftTime
from windowing.tuples import Tuple
from windowing.unions import Union
from windowing.window import TupleWindow

__all__ = [
    "SOURCE",
    "AggregateBolt",
    "AlterLifetime",
    "Arrival",
    "BatchBolt",
    "Bolt",
    "BoltError",
    "Bounds",
    "Calendar",
    "CheckpointError",
    "ConfigError",
    "Count",
    "CountByStart",
    "DamagedCheckpoint",
    "DataError",
    "DayTime",
    "Duration",
    "Emit",
    "EnvironmentMissing",
    "Events",
    "Hopping",
    "Panes",
    "ScenarioError",
    "SchemaError",
    "Session",
    "ShiftTime",
    "SlidingLog",
    "Snapshot",
    "StatefulWindowedBolt",
    "StorageError",
    "TaskContext",
    "TemporalJoin",
    "TopologyError",
    "Tuple",
    "TupleWindow",
    "Union",
    "WindboltError",
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
