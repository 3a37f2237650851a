"""Mutation testing: small defects planted at random in the source, and which of them the tests find."""
