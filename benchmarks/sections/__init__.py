"""The sections of the benchmark: each has arms enter contests, and says what the goals are."""
