"""The vocabulary of windbolt, and what its users subclass and read."""

from windowing import aggregates
from windowing.bolts.batch_windowed_bolt import BatchWindowedBolt
from windowing.bolts.component import TaskContext
from windowing.bolts.joins.temporal_join import TemporalJoin
from windowing.bolts.joins.window_join import WindowJoin
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.bolts.ready.aggregate_bolt import AggregateBolt
from windowing.bolts.ready.changes import Changes
from windowing.bolts.ready.deduplicate import Deduplicate
from windowing.bolts.ready.ranking import Rank, TopN
from windowing.bolts.ready.rate_limit import RateLimit
from windowing.bolts.ready.shifts import AlterLifetime, ShiftTime
from windowing.bolts.ready.silence import Silence
from windowing.bolts.ready.unions import Union
from windowing.bolts.windowed_bolt import StatefulWindowedBolt, WindowedBolt
from windowing.data.events import Events
from windowing.data.returned_rows import Emit
from windowing.data.tuples import Tuple
from windowing.errors import (
    BoltError,
    CheckpointError,
    ConfigError,
    DamagedCheckpoint,
    DataError,
    EnvironmentMissing,
    ScenarioError,
    SchemaError,
    SpoutError,
    StorageError,
    TopologyError,
    WindboltError,
)
from windowing.settings import kinds, panes, presets, triggers
from windowing.settings.bounds import Bounds
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.rules import SOURCE, Arrival
from windowing.spout import Spout
from windowing.time.daytimes import DayTime
from windowing.time.durations import (
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
from windowing.window import TupleWindow
from windowing.window_batch import WindowBatch

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
    "Rank",
    "RateLimit",
    "ScenarioError",
    "SchemaError",
    "Session",
    "ShiftTime",
    "Silence",
    "SlidingLog",
    "Snapshot",
    "Spout",
    "SpoutError",
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
