"""Arguments and results of every runner: options, summary and clock; and runs that need a checkpoint."""
