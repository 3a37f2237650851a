"""The checkpoint: plans, manifests and segments, in files that tell whether they are whole."""
