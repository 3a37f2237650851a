"""How commands write to a terminal: reports, progress, errors, tables."""
