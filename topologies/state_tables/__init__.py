"""What a checkpoint holds, as tables: open windows, keys, events, the state of bolts; from the checkpoint alone."""
