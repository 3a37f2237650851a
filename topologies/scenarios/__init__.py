"""Scenarios: a bolt, steps and what they must lead to, as data; read, answered, judged and drawn."""
