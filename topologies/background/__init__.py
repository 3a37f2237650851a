"""Runs in the background: a topology is started, looked at, waited for and stopped."""
