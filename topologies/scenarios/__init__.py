"""Scenarios: a bolt, steps and expected results, as data; read, answered, judged and drawn."""
