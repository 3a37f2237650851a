"""Time at the door of a bolt: what time an event has, whether it is let in, how far time is."""
