"""The vocabulary of windbolt, and what its users subclass and read."""

from windowing.bolt import BatchBolt, Bolt, StatefulWindowedBolt, TaskContext, WindowedBolt
from windowing.bounds import Bounds
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
    DataError,
    EnvironmentMissing,
    ScenarioError,
    SchemaError,
    TopologyError,
    WindboltError,
)
from windowing.events import Events
from windowing.rows import Emit
from windowing.tuples import Tuple
from windowing.window import TupleWindow

__all__ = [
    "BatchBolt",
    "Bolt",
    "BoltError",
    "Bounds",
    "CheckpointError",
    "ConfigError",
    "Count",
    "DataError",
    "Duration",
    "Emit",
    "EnvironmentMissing",
    "Events",
    "ScenarioError",
    "SchemaError",
    "StatefulWindowedBolt",
    "TaskContext",
    "TopologyError",
    "Tuple",
    "TupleWindow",
    "WindboltError",
    "WindowedBolt",
    "days",
    "hours",
    "micros",
    "millis",
    "minutes",
    "parse_duration",
    "seconds",
]
