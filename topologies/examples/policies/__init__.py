"""Windows of one's own, ready to copy: each file is a topology with its policies, and has a scenario beside it."""
