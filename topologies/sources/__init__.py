"""Reading splits of sources: rows of files and records as events, and input on which readers die."""
