"""Classes that users subclass or declare: bolts with and without windows, joins, unions, shifts, state."""
