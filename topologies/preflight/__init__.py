"""What can be found out about a topology's surroundings without running it: its sources, its sinks, its checkpoint."""
