"""Notes in a checkpoint for those who look at it without the topology: graph, rules, sinks, runs."""
