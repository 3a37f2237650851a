"""Windows that assigners form, in one task: the task, and a file for each thing that it keeps between batches."""
