"""Whether a topology fits a checkpoint: what is noted of it, what differs, and what may be new."""
