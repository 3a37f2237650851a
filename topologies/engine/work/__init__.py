"""The work of a task in a batch: what it is given, and what it hands to the driver."""
