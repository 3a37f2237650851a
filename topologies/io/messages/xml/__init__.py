"""XML messages: one document each."""
