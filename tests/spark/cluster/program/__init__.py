"""What a user has on the machine of the driver, and nowhere else."""
