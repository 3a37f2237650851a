"""A tick: the driver advances the time of each bolt, and finds the tasks that have work to do."""
