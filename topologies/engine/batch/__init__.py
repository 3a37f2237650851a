"""A micro-batch: its plan, what every task of it receives, who runs them, its progress and its report."""
