"""The driver's own worker processes: starting them, giving them tasks, watching and ending them."""
