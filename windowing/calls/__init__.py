"""The arguments of public calls: whether they are those of the signature, and of the types that it names."""
