"""Metrics of runs, for operators: Prometheus, OpenTelemetry, and whether a run is well."""
