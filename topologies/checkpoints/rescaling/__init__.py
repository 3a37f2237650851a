"""Other numbers of tasks for the bolts of a checkpoint: what a task keeps goes to the task that has its key now."""
