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
from windowing.rows import Emit
from windowing.shifts import AlterLifetime, ShiftTime
from windowing.tuples import Tuple
from windowing.unions import Union
from windowing.window import TupleWindow

__all__ = [
    "AggregateBolt",
    "AlterLifetime",
    "BatchBolt",
    "Bolt",
    "BoltError",
    "Bounds",
    "CheckpointError",
    "ConfigError",
    "Count",
    "DamagedCheckpoint",
    "DataError",
    "DayTime",
    "Duration",
    "Emit",
    "EnvironmentMissing",
    "Events",
    "ScenarioError",
    "SchemaError",
    "ShiftTime",
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
