"""The data of a micro-batch: its plan, progress, report, errors and trace."""
