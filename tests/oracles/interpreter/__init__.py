"""One slow, plain interpreter of all rules of windows and time: the executable specification (docs/semantics.md)."""
