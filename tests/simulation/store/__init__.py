"""An object store in memory, with the faults of one, and several drivers that use it by turns."""
