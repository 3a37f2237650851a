"""A module of the user's that is imported by a computed name."""
