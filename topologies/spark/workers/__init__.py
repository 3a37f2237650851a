"""Worker processes of the driver's own: started, given tasks, watched, ended."""
