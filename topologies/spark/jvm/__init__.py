"""Java: the process, the session in it, and the jars it needs."""
