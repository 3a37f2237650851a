"""State and machinery: the window manager, the watermark generator, the event queue, the accounts."""

from manager.accounts import Accounts
from manager.queue.queue_state import QueueState
from manager.watermarks.watermark import WaterMarkEventGenerator
from manager.window_manager import WindowManager

__all__ = ["Accounts", "QueueState", "WaterMarkEventGenerator", "WindowManager"]
