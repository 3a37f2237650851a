"""A tick: the driver advances the time of each bolt, and finds the tasks that may have a window due."""
