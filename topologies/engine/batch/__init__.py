"""What a micro-batch is: its plan, its progress, its report, its errors, its trace."""
