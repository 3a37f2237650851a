"""What may stand in a scenario file."""
