"""State in a checkpoint, as tables: ``state.bolts("ck/")``, ``state.read("ck/", "revenue")["windows"]``. Also new
checkpoints: ``state.begin("ck/", topology, {"orders": table})`` makes one that begins with events from tables, and
``state.repair("ck/", "repaired/", {"revenue": rows})`` one with repaired events."""

from topologies.checkpoints.repair import repair
from topologies.checkpoints.state_tables import begin, bolts, read
from topologies.checkpoints.stored_tasks import StoredState

__all__ = ["StoredState", "begin", "bolts", "read", "repair"]
