"""Time at a bolt: the times of events, their admission, and how far time has advanced."""
