"""A standalone cluster of two workers that share nothing but one folder, and what runs on it."""
