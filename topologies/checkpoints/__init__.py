"""A checkpoint folder, for both engines: its two halves, and all operations on them.

The state that tasks save there, and restore after a crash, is in ``engine/fire/`` and ``manager/storage/``.
"""
