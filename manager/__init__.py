"""State and machinery: the window manager, the watermark generator, the event queue, the accounts."""

from manager.accounts import Accounts
from manager.queue.manager_state import ManagerState
from manager.watermarks.watermark import WaterMarkEventGenerator
from manager.window_manager import WindowManager

__all__ = ["Accounts", "ManagerState", "WaterMarkEventGenerator", "WindowManager"]
