"""The moving parts: the window manager, the watermark generator, the queue, the accounts."""

from manager.accounts import Accounts
from manager.queue.manager_state import ManagerState
from manager.watermarks.watermark import WaterMarkEventGenerator
from manager.window_manager import WindowManager

__all__ = ["Accounts", "ManagerState", "WaterMarkEventGenerator", "WindowManager"]
