"""What every runner takes and returns: options, the summary, the clock, the name of a checkpoint."""
