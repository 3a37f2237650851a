"""The file of an aggregation step: its permitted content, and all its problems at once."""

from topologies.step.config.file_problems import StepConfigError, StepProblem
from topologies.step.config.read_files import ENDINGS
from topologies.step.config.step_files import is_step, load_step, step_from
from topologies.step.config.step_model import Step, StepConfig

__all__ = ["ENDINGS", "Step", "StepConfig", "StepConfigError", "StepProblem", "is_step", "load_step", "step_from"]
