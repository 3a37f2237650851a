"""Checkpoints: plans, manifests and segments, in files with checksums."""
