"""What keeps a run from succeeding, and can be told before an engine starts."""

from __future__ import annotations

from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.storage_errors import during
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.topology_fit.topology_note import check_fit
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.io.file_spout import FileSpout
from topologies.io.paths import locate, shown_path
from topologies.io.sinks import FileSink
from topologies.preflight.folders import make_sink_folders
from topologies.preflight.input_paths import refuse_missing_input
from topologies.run.options import RunOptions
from topologies.topology import Topology


def refuse_before_start(topology: Topology, options: RunOptions) -> None:
    """Raise what a run would end with anyway.

    CheckpointError where the checkpoint is another topology's; StorageError where a sink's folder cannot be made or
    written to; ConfigError where input is not there; EnvironmentMissing or ConfigError where input or a sink is in
    HDFS, which cannot be reached.

    Starting Spark takes seconds. Nobody is kept off the checkpoint meanwhile, so the run checks all of it again.
    """
    assert options.checkpoint is not None
    _check_hdfs(topology)
    refuse_missing_input(topology)
    with during("the start of the run", "nothing is lost"):
        halves = PairedCheckpoint(options.checkpoint)
        with naming_a_way_back(halves):
            check_fit(halves, topology, options.first_output_at, allow_rescale=options.allow_rescale)
        make_sink_folders(topology)


def _check_hdfs(topology: Topology) -> None:
    """Open the file systems of HDFS that the topology names; no NameNode is asked yet."""
    ends = [*(node.spout for node in topology.spouts.values()), *(node.sink for node in topology.sinks.values())]
    for end in ends:
        for path in end.paths if isinstance(end, FileSpout) else [end.path] if isinstance(end, FileSink) else []:
            if is_hdfs(shown_path(path)):
                locate(path)
