"""Plays a seed: its runs with all their faults, then the same steps without any."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from manager.accounts import ACCOUNTS
from manager.storage import file_segments
from manager.storage.checkpoint import batch_key, batch_of
from tests.simulation.disk import Crash, Disk
from tests.simulation.executor import SimulatedExecutor
from tests.simulation.faults import Fault, SinkFailed, Weather, schedule
from tests.simulation.judging import Outcome, differences, outcome
from tests.simulation.worlds import Portion, World
from topologies.engine.batch.executor import InProcess
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.report import BatchReport
from topologies.io.spouts import FoundFile
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing.errors import StorageError, WindboltError

_MEMORY = "/dev/shm"
_HOUR = 3_600_000_000


class Step(NamedTuple):
    """What a step was, as it was planned."""

    clock: int
    slots: int
    files: tuple[str, ...]


@dataclass
class Played:
    """A seed that has been played."""

    seed: int
    world: World
    faults: list[Fault]
    problems: list[str] = field(default_factory=list)
    """In what the runs with faults differ from what they should have come to; none if all is well."""
    happened: list[str] = field(default_factory=list)
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    steps: int = 0

    def __str__(self) -> str:
        lines = [f"seed {self.seed}", "topology:", *self.world.words, "what happened:", *self.happened]
        lines += ["what is wrong:", *(self.problems or ["nothing"])]
        command = f"python -m tests.simulation --seeds 1 --from {self.seed}"
        chosen = "" if self.faults == schedule(self.seed) else f" --only {self.only}"
        return "\n  ".join(lines) + f"\nto see it again: {command}{chosen}"

    @property
    def only(self) -> str:
        """The places of its faults in the schedule of the seed."""
        whole = schedule(self.seed)
        return ",".join(str(whole.index(fault)) for fault in self.faults)


class Wrong(Exception):
    """Something that no fault justifies."""


def play(seed: int, only: Collection[int] | None = None) -> Played:
    """Play a seed; ``only`` those of its faults that stand at these places."""
    faults = [fault for at, fault in enumerate(schedule(seed)) if only is None or at in only]
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None, prefix="windbolt-") as folder:
        return _Play(seed, faults, folder).played


def shrunk(played: Played) -> Played:
    """The same failure with as few faults as possible."""
    whole = schedule(played.seed)
    places = [whole.index(fault) for fault in played.faults]
    for place in list(places):
        fewer = play(played.seed, [each for each in places if each != place])
        if fewer.problems:
            played, places = fewer, [each for each in places if each != place]
    return played


class _Play:
    def __init__(self, seed: int, faults: list[Fault], folder: str) -> None:
        self.world = World(seed)
        self.world.portions.append(Portion({"last.jsonl": ""}, flush=True))  # when all faults are over
        self.played = Played(seed, self.world, faults)
        self.chance = random.Random(f"play {seed}")
        self.steps: dict[str, Step] = {}
        self.late: list[Callable[[], Any]] = []
        self.clock = self.chance.choice([0, 1_700_000_000_000_000])
        self.disk = Disk(f"{folder}/disk", self.chance)
        self.weather = Weather(faults, self.disk, self.chance)
        self.weather.phase = self._phase
        self.run: LocalRun | None = None
        self.folder = self.disk.data
        try:
            wild = self._wild()
            self.played.problems += self._cut_alike()
            self._clear()
            calm = self._calm()
            self.played.problems += differences(wild, calm)
        except Wrong as error:
            self.played.problems.append(str(error))
        played, weather = self.played, self.weather
        played.happened, played.met, played.operations = weather.happened, weather.met, weather.operations
        played.lives, played.steps = weather.life, len(self.steps)

    def _phase(self) -> str:
        return str(getattr(self.run, "simulated_phase", ""))

    def _wild(self) -> Outcome:
        """All portions, with all faults."""
        with self.disk.mounted():
            for portion in range(len(self.world.portions)):
                self.world.deliver(portion, self.folder)
                self.disk.settle()
                last = portion == len(self.world.portions) - 1
                if last:
                    self.late.clear()
                for _ in range(100):
                    if self._live(portion, calm=last):
                        break
                else:
                    raise Wrong("the run comes to no end")
        return outcome(self.folder, self.world)

    def _live(self, portion: int, *, calm: bool) -> bool:
        """One process; whether it has come to the end of the input."""
        file_segments._CHECKED.clear()
        self.disk.start()
        self.weather.begin()
        self.disk.before = self._count if calm else self.weather.before
        self.world.before_call = (lambda: None) if calm else self.weather.of_sink
        try:
            self._run_once(portion)
        except Crash:
            if self.weather.cut:
                self.weather.happened += [f"  lost: {words}" for words in self.disk.cut_power()]
        except Exception as error:
            self._judge(error)
        else:
            if not self.disk.dead:
                return True
            raise Wrong("a run went on after its process had died")
        finally:
            self.run = None
            if not calm:
                self.weather.end()
        return False

    def _count(self, operation: str, path: str) -> None:
        """Without faults."""

    def _judge(self, error: Exception) -> None:
        """An error that ended a run: whether a fault justifies it, and whether it is in clear words."""
        what = f"{type(error).__name__}: {error}".replace(f"{self.folder}/", "")
        self.weather.happened.append(f"life {self.weather.life}: the run ends with {what}")
        self.played.refusals[type(error).__name__] += 1
        said = "".join(traceback.format_exception(error))
        if not self.weather.justified:
            raise Wrong(f"no fault justifies this error: {said}")
        if not clear(error):
            raise Wrong(f"an error without clear words: {said}")

    def _run_once(self, portion: int) -> None:
        topology = self.world.topology(self.folder)
        flush = self.world.portions[portion].flush
        options = self.world.options(self.folder, flush=flush, clock=self._now, on_report=_check_accounts)
        WildRun(topology, options, self).run()

    def _now(self) -> int:
        """A clock that goes on, stands still, jumps, and goes back."""
        self.clock += self.chance.choice([0, 0, 1_000, 700_000, 3_000_000, 20_000_000, -5_000_000, -_HOUR, _HOUR])
        return self.clock

    def _clear(self) -> None:
        """As if nothing had been run."""
        for name in ("ck", "out"):
            shutil.rmtree(f"{self.folder}/{name}")
        self.world.calls.clear()

    def _calm(self) -> Outcome:
        """The same steps, in one process that nothing happens to."""
        file_segments._CHECKED.clear()
        with self.disk.mounted():
            self.disk.start()
            self.disk.before = self._count
            self.world.before_call = lambda: None
            topology = self.world.topology(self.folder)
            options = self.world.options(self.folder, flush=False, on_report=_check_accounts)
            CalmRun(topology, options, self.steps).run()
        return outcome(self.folder, self.world)

    def _cut_alike(self) -> list[str]:
        """That every file was in one batch, in their order, and the batches as full as without faults."""
        problems: list[str] = []
        steps = [step for _, step in sorted(self.steps.items(), key=_in_time)]
        found = [list(step.files) for step in steps if step.files]
        most = self.world.per_batch
        listed = [list(portion.files) for portion in self.world.portions]
        wanted = [names[at : at + most] for names in listed for at in range(0, len(names), most)]
        if found != wanted:
            problems.append(f"the files were read as {found} and not as {wanted}")
        clocks = [step.clock for step in steps]
        if clocks != sorted(clocks):
            problems.append(f"the clock went back: {clocks}")
        return problems


class WildRun(LocalRun):
    """A run in the simulated world."""

    def __init__(self, topology: Topology, options: RunOptions, play: _Play) -> None:
        self.play, self.simulated_phase = play, "opening"
        play.run = self
        super().__init__(topology, options)

    def _begin(self) -> None:
        chance = random.Random(self.play.chance.getrandbits(64))
        self.executor = SimulatedExecutor(self.play.weather, chance, self.play.late)

    def _batches(self) -> None:
        self.micro_batch.hook = self._hook
        self.simulated_phase = "listing"
        super()._batches()
        self.simulated_phase = "ending"

    def _hook(self, phase: str) -> None:
        self.simulated_phase = phase

    def _run(self, plan: BatchPlan, *, again: bool) -> None:
        key = batch_key(plan.batch, plan.closing)
        with open(f"{self.checkpoint.root}/plans/{key}.json", encoding="utf-8") as file:
            planned = json.loads(file.read().split("\n", 1)[1])["plan"]
        files = tuple(os.path.basename(path) for _, path in planned.get("files", ()))
        committed = self.micro_batch.manifest.batch, self.micro_batch.manifest.closing
        for step in [step for step in self.play.steps.items() if _in_time(step) > committed]:
            del self.play.steps[step[0]]  # it did not come to its commit, or a power cut has taken that back
        self.play.steps[key] = Step(planned["clock"], planned.get("slots", 1), files)
        super()._run(plan, again=again)


class CalmRun(LocalRun):
    """The steps of other runs, once more."""

    def __init__(self, topology: Topology, options: RunOptions, steps: dict[str, Step]) -> None:
        self.steps = dict(sorted(steps.items(), key=_in_time))
        self.at = ""
        super().__init__(topology, options)

    def _begin(self) -> None:
        self.executor = _Here()

    def _batches(self) -> None:
        self.options.stop.set()  # the journal, and no batch
        super()._batches()
        self.options.stop.clear()
        (name,) = self.spouts
        for key, step in self.steps.items():
            self.at, self.executor.slots = key, step.slots
            if key.endswith("-close"):
                self._close()
                continue
            listed = {os.path.basename(each.path): each for each in self.spouts[name].listed()}
            found: list[FoundFile] = [listed[each] for each in step.files]
            self._run_and_note(self.journal.plan({name: found}, step.clock, heartbeat=True))

    def _now(self) -> int:
        return self.steps[self.at].clock


class _Here(InProcess):
    slots = 1

    def load(self, topology: Topology) -> None:
        """They have the topology."""

    def close(self) -> None:
        """There is nothing to free."""


def _in_time(step: tuple[str, Step]) -> tuple[int, bool]:
    return batch_of(step[0]), step[0].endswith("-close")


def clear(error: Exception) -> bool:
    """Whether an error says what and what to do; a failure of the user's own function is the user's."""
    if isinstance(error, StorageError):
        return bool(error.doing and error.what and error.why and error.do)
    if isinstance(error, WindboltError):
        return bool(error.what and error.do)
    return isinstance(error, SinkFailed)


def _check_accounts(report: BatchReport) -> None:
    """That after each commit every event is in exactly one account."""
    for name, bolt in report.bolts.items():
        held = sum(bolt.accounts[account] for account in ACCOUNTS) + bolt.accounts["pending"]
        if held != bolt.accounts["received"]:
            raise Wrong(f"the accounts of {name} do not add up after {report.batch}: {bolt.accounts}")
