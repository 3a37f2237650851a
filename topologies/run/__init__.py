"""Arguments and results of every runner: options, summary, clock; and the reasons why a run needs a checkpoint."""
