"""What a checkpoint holds, as tables: ``state.bolts("ck/")``, ``state.read("ck/", "revenue")["windows"]``; and one that
begins with events from tables: ``state.begin("ck/", topology, {"orders": table})``; and one whose stored events are
repaired: ``state.repair("ck/", "repaired/", {"revenue": rows})``."""

from topologies.repairs.repair_state import repair
from topologies.state_tables.begin_state import begin
from topologies.state_tables.read_state import bolts, read
from topologies.state_tables.stored_state import StoredState

__all__ = ["StoredState", "begin", "bolts", "read", "repair"]
