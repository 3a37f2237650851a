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
from itertools import chain
from typing import Any, NamedTuple

from manager.accounts import ACCOUNTS
from manager.storage import file_segments
from manager.storage.checkpoint import batch_key, batch_of
from tests.simulation import contents
from tests.simulation.disk import Crash, Disk
from tests.simulation.executor import SimulatedExecutor
from tests.simulation.faults import WRITES, Fault, SinkFailed, Weather, schedule
from tests.simulation.judging import Outcome, differences, outcome
from tests.simulation.pauses import Stopped, flip_a_bit, flip_back, go_back_somewhere
from tests.simulation.world.world import Told, World
from topologies.engine.batch.executor import InProcess
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.report import BatchReport
from topologies.io.spouts import FoundFile
from topologies.local import LocalRun
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing.errors import CheckpointError, StorageError, WindboltError

_MEMORY = "/dev/shm"
_HOUR = 3_600_000_000


class Step(NamedTuple):
    """What a step was, as it was planned."""

    clock: int
    slots: int
    files: tuple[tuple[str, str], ...]
    """The spout and the name of each."""

    def of(self, spout: str) -> list[str]:
        """The names of those of one spout."""
        return [name for of, name in self.files if of == spout]


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
        self.played = Played(seed, self.world, faults)
        self.chance = random.Random(f"play {seed}")
        self.steps: dict[str, Step] = {}
        self.late: list[Callable[[], Any]] = []
        self.clock = self.chance.choice([0, 1_700_000_000_000_000])
        self.disk = Disk(f"{folder}/disk", self.chance)
        self.weather = Weather(faults, self.disk, self.chance)
        self.weather.phase, self.weather.second = self._phase, self._second_driver
        self.going_back: str | None = None
        """Where a process was going back to when it died: no run begins before it is done."""
        self.went_back = False
        self.reports: list[BatchReport] = []
        """Of the steps without faults."""
        self.run: WildRun | None = None
        self.folder = self.disk.data
        try:
            wild = self._wild()
            self.played.problems += self._cut_alike()
            self._clear()
            calm = self._calm()
            self.played.problems += differences(wild, calm)
            if not self.played.problems:
                self.played.problems += self._contents()
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
        self.weather.calm = calm
        pause = None if calm else self.weather.of_pause()
        flipped = flip_a_bit(f"{self.folder}/ck", self.chance) if pause == "a bit flips" else None
        if flipped is not None:
            self.weather.happened.append(f"  in {self.disk.short(flipped.path)}, at {flipped.at}")
        self.disk.before = self._count if calm else self.weather.before
        self.world.before_call = (lambda: None) if calm else self.weather.of_sink
        try:
            if pause == "it goes back" or self.going_back is not None:
                self._go_back()
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
            if flipped is not None:
                flip_back(flipped)
            if not calm:
                self.weather.end()
        return False

    def _go_back(self) -> None:
        """Go back to one of the batches that are kept, or on with it where that was interrupted."""
        key = go_back_somewhere(f"{self.folder}/ck", self.chance, self.going_back, self._going_back)
        self.going_back = None
        if key is not None:
            self.weather.happened.append(f"life {self.weather.life}: it is back at batch {key}")

    def _going_back(self, key: str) -> None:
        """What later batches did is undone, from here on."""
        self.going_back, self.went_back = key, True
        for step in [step for step in self.steps if step > key]:
            del self.steps[step]
        for serial in [serial for serial in self.world.calls if serial > serial_of(key)]:
            del self.world.calls[serial]

    def _second_driver(self) -> None:
        """Another process on the same checkpoint: it is refused, and changes nothing."""
        first = self.run
        if first is None or not first.locked:
            return
        before, self.disk.before = self.disk.before, _may_only_read
        try:
            LocalRun(self.world.topology(self.folder), self.world.options(self.folder, flush=True)).run()
        except CheckpointError as error:
            if "in use" not in str(error):
                raise Wrong(f"a second driver is refused with: {error}") from error
        else:
            raise Wrong("two drivers run on one checkpoint")
        finally:
            self.disk.before = before

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
        triggers = self.world.portions[portion].triggers
        rest = {"every": "1s", "stop": Stopped(triggers)} if triggers else {"flush": flush}
        options = self.world.options(self.folder, clock=self._now, on_report=_check_accounts, **rest)
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
            options = self.world.options(self.folder, flush=False, on_report=self.reports.append)
            CalmRun(topology, options, self.steps).run()
        return outcome(self.folder, self.world)

    def _contents(self) -> list[str]:
        """In what windows differ from those that the events and clocks of the steps demand."""
        problems: list[str] = []
        taken = sorted(self.steps.items(), key=_in_time)
        first = next((at for at, (key, _) in enumerate(taken, 1) if key.endswith("-close")), len(taken))
        for name, told in self.world.told.items():
            steps = [part for key, step in taken[:first] for part in self._parts(key, step, told)]
            rows = contents.rows_of(f"{self.folder}/out/{name}", told.format)
            accounts = self.reports[first - 1].bolts[name].accounts
            problems += contents.differences(name, told.rules, steps, rows, accounts)
        return problems

    def _parts(self, key: str, step: Step, told: Told) -> list[dict[str, Any]]:
        """What a step is to a bolt that reads a spout, as steps of a scenario."""
        if key.endswith("-close"):
            return [{"close": True}]
        texts = {name: text for portion in self.world.portions for name, text in portion.files.items()}
        lines = "".join(texts[f"{told.spout}/{name}"] for name in step.of(told.spout))
        return contents.steps_of(lines, step.clock, event_time="timestamp_field" in told.rules)

    def _cut_alike(self) -> list[str]:
        """That every file was in one batch, in their order, and the batches as full as without faults."""
        problems: list[str] = []
        steps = [step for _, step in sorted(self.steps.items(), key=_in_time)]
        for spout in self.world.spouts:
            found = [names for step in steps if (names := step.of(spout))]
            listed = [portion.of(spout) for portion in self.world.portions]
            if self.went_back:  # what had come in two portions comes again in one
                found, listed = [[*chain(*found)]], [[*chain(*listed)]]
            most = max(len(listed[0]), 1) if self.went_back else self.world.per_batch
            wanted = [names[at : at + most] for names in listed for at in range(0, len(names), most)]
            if [names for names in found if names] != wanted:
                problems.append(f"the files of {spout} were read as {found} and not as {wanted}")
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

    @property
    def locked(self) -> bool:
        """Whether it has the checkpoint to itself."""
        halves = getattr(self, "halves", None)
        return halves is not None and halves._held is not None and not halves._held.closed

    def _hook(self, phase: str) -> None:
        self.simulated_phase = phase

    def _run(self, plan: BatchPlan, *, again: bool) -> None:
        key = batch_key(plan.batch, plan.closing)
        with open(f"{self.checkpoint.root}/plans/{key}.json", encoding="utf-8") as file:
            planned = json.loads(file.read().split("\n", 1)[1])["plan"]
        files = tuple((spout, os.path.basename(path)) for spout, path in planned.get("files", ()))
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
        for key, step in self.steps.items():
            self.at, self.executor.slots = key, step.slots
            if key.endswith("-close"):
                self._close()
                continue
            found = {name: self._listed(name, step.of(name)) for name in self.spouts}
            self._run_and_note(self.journal.plan(found, step.clock, heartbeat=True))

    def _listed(self, spout: str, names: list[str]) -> list[FoundFile]:
        listed = {os.path.basename(each.path): each for each in self.spouts[spout].listed()}
        return [listed[name] for name in names]

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


def serial_of(key: str) -> int:
    """The number that the function of a sink is given for a batch."""
    return 2 * batch_of(key) + key.endswith("-close")


def _may_only_read(operation: str, path: str) -> None:
    if operation in WRITES:
        raise Wrong(f"a second driver changes files: {operation} {path}")


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
