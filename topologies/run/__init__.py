"""What every runner takes and returns: options, the summary, the clock; and what a run needs a checkpoint for."""
