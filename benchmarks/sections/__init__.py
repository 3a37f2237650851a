"""The parts of the benchmark; each adds its figures and verdicts to the results."""
