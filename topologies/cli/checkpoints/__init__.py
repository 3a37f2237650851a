"""Commands that look into a checkpoint, take it elsewhere, and let parts of it start over."""
