"""What a seed runs: a topology drawn at random, and its input."""
