"""What OpenTelemetry is told of a run, through its API: the metrics, and spans of batches, phases and windows."""
