"""A module of the user's, which a bolt imports late."""

RATE = 2
