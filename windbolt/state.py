"""What a checkpoint holds, as tables: ``state.bolts("ck/")``, ``state.read("ck/", "revenue")["windows"]``; and one that
begins with events from tables: ``state.begin("ck/", topology, {"orders": table})``; and one whose stored events are
repaired: ``state.repair("ck/", "repaired/", {"revenue": rows})``."""

from topologies.checkpoints.repair import repair
from topologies.checkpoints.state_tables import begin, bolts, read
from topologies.checkpoints.stored_tasks import StoredState

__all__ = ["StoredState", "begin", "bolts", "read", "repair"]
