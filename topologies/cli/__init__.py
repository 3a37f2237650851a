"""The commands of ``windbolt``, one a file."""
