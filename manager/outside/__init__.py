"""What lies outside this process: its names, and which of its failures pass."""
