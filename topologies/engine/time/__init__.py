"""Time at a bolt: the times of events, the anchor of windows, the first output, the delay of the watermark."""
