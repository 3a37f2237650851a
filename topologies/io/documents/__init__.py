"""Files that people write, in YAML, JSON and HOCON: read strictly, and what is wrong with them told by its place."""
