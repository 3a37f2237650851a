"""What every runner takes and gives: options, the summary, the clock, the name of a checkpoint."""
