"""Events added up by slice of time and key as they come."""
