"""Running a scenario: its micro-batches, its answer, and what differs from what it expects."""
