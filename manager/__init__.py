"""The moving parts: the window manager, the watermark generator, the queue, the accounts."""

from manager.accounts import Accounts
from manager.watermark import WaterMarkEventGenerator
from manager.window_manager import ManagerState, WindowManager

__all__ = ["Accounts", "ManagerState", "WaterMarkEventGenerator", "WindowManager"]
