"""Windows, watermarks and accounts of a bolt's tasks, and how their state is stored."""

from manager.accounts import Accounts
from manager.storage.task_state import QueueState
from manager.watermarks import WaterMarkEventGenerator
from manager.window_manager import WindowManager

__all__ = ["Accounts", "QueueState", "WaterMarkEventGenerator", "WindowManager"]
