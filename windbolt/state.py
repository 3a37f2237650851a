"""What a checkpoint holds, as tables: ``state.bolts("ck/")``, ``state.read("ck/", "revenue")["windows"]``."""

from topologies.state_tables.read_state import bolts, read
from topologies.state_tables.stored_state import StoredState

__all__ = ["StoredState", "bolts", "read"]
