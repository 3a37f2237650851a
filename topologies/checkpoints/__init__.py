"""A checkpoint folder, whichever engine runs on it: its two halves, and what can be done with them.

The state that tasks save in it, and restore after a crash, is in ``engine/fire/`` and ``manager/storage/``.
"""
