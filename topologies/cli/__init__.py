"""The commands of ``windbolt``, one per file."""
