"""Windows of keys that a key trigger fires: a count, a rule, a timeout, a time of day."""
