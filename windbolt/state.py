"""What a checkpoint holds, as tables: ``state.bolts("ck/")``, ``state.read("ck/", "revenue")["windows"]``."""

from topologies.stored.reading import bolts, read
from topologies.stored.stored_state import StoredState

__all__ = ["StoredState", "bolts", "read"]
