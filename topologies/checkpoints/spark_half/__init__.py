"""Spark's half of a checkpoint: which input belongs to which batch, written by Spark or, alike, by the local engine."""
