"""The file of an aggregation step: its permitted content, and all its problems at once."""

from topologies.step.config.errors import StepConfigError, StepProblem
from topologies.step.config.model import Step, StepConfig
from topologies.step.config.reading import ENDINGS
from topologies.step.config.step_files import is_step, load_step, step_from

__all__ = ["ENDINGS", "Step", "StepConfig", "StepConfigError", "StepProblem", "is_step", "load_step", "step_from"]
