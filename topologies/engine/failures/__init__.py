"""Failures of tasks: errors of users' code, dead workers and children that outlive a call."""
