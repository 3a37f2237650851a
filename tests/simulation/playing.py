"""Plays a seed: its runs with all their faults, then the same steps without any."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from manager.accounts import ACCOUNTS
from manager.storage import file_segments
from manager.storage.checkpoint import batch_of
from tests.simulation import contents
from tests.simulation.broker import Ends
from tests.simulation.case import Case
from tests.simulation.disk import Crash, Disk
from tests.simulation.faults import WRITES, SinkFailed, Weather
from tests.simulation.judging import Outcome, differences, outcome
from tests.simulation.pauses import Stopped, flip_a_bit, flip_back, go_back_somewhere
from tests.simulation.runs import CalmRun, Step, WildRun, in_time
from tests.simulation.world.world import CannotBeBuilt, Told, World, words_of
from topologies.engine.batch.report import BatchReport
from topologies.local import LocalRun
from windowing.errors import CheckpointError, StorageError, WindboltError

_MEMORY = "/dev/shm"
_HOUR = 3_600_000_000


@dataclass
class Played:
    """A case that has been played."""

    case: Case
    problems: list[str] = field(default_factory=list)
    """In what the runs with faults differ from what they should have come to; none if all is well."""
    happened: list[str] = field(default_factory=list)
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    steps: int = 0

    def __str__(self) -> str:
        lines = [f"seed {self.case.seed}", "topology:", *words_of(self.case.world), "what happened:", *self.happened]
        return "\n  ".join([*lines, "what is wrong:", *(self.problems or ["nothing"])])


class Wrong(Exception):
    """Something that no fault justifies."""


def play(case: Case | int) -> Played:
    """Play a case, or that of a seed."""
    for each in Case.of(case) if isinstance(case, int) else [case]:
        try:
            return _play(each)
        except CannotBeBuilt:
            if not isinstance(case, int):
                raise
    raise AssertionError("no world can be built")


def _play(case: Case) -> Played:
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None, prefix="windbolt-") as folder:
        return _Play(case, folder).played


class _Play:
    def __init__(self, case: Case, folder: str) -> None:
        self.plan, self.played = case.world, Played(case)
        self.chance = random.Random(f"play {case.seed}")
        self.steps: dict[str, Step] = {}
        self.late: list[Callable[[], Any]] = []
        self.clock = self.chance.choice([0, 1_700_000_000_000_000])
        self.disk = Disk(f"{folder}/disk", self.chance, self.plan.names)
        self.world = World(self.plan, self.disk.data)
        self.weather = Weather(case.faults, self.disk, self.chance)
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
            self.played.problems.append(str(error).replace(f"{self.folder}/", ""))
        played, weather = self.played, self.weather
        played.happened, played.met, played.operations = weather.happened, weather.met, weather.operations
        played.lives, played.steps = weather.life, len(self.steps)

    def _phase(self) -> str:
        return str(getattr(self.run, "simulated_phase", ""))

    def _wild(self) -> Outcome:
        """All portions, with all faults."""
        with self.disk.mounted():
            for portion in range(len(self.plan.portions)):
                self.world.deliver(portion)
                self.disk.settle()
                last = portion == len(self.plan.portions) - 1
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
            LocalRun(self.world.topology, self.world.options(flush=True)).run()
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
        flush = self.plan.portions[portion].flush
        triggers = self.plan.portions[portion].triggers
        rest = {"every": "1s", "stop": Stopped(triggers)} if triggers else {"flush": flush}
        options = self.world.options(clock=self._now, on_report=_check_accounts, **rest)
        WildRun(self.world.topology, options, self).run()

    def _now(self) -> int:
        """A clock that goes on, stands still, jumps, and goes back."""
        self.clock += self.chance.choice([0, 0, 1_000, 700_000, 3_000_000, 20_000_000, -5_000_000, -_HOUR, _HOUR])
        return self.clock

    def _clear(self) -> None:
        """As if nothing had been run."""
        for name in ("ck", "out"):
            if os.path.isdir(f"{self.folder}/{name}"):
                shutil.rmtree(f"{self.folder}/{name}")
        self.world.calls.clear()

    def _calm(self) -> Outcome:
        """The same steps, in one process that nothing happens to."""
        file_segments._CHECKED.clear()
        with self.disk.mounted():
            self.disk.start()
            self.disk.before = self._count
            self.world.before_call = lambda: None
            options = self.world.options(flush=False, on_report=self.reports.append)
            CalmRun(self.world, options, self.steps).run()
        return outcome(self.folder, self.world)

    def _contents(self) -> list[str]:
        """In what windows differ from those that the events and clocks of the steps demand."""
        problems: list[str] = []
        taken = sorted(self.steps.items(), key=in_time)
        first = next((at for at, (key, _) in enumerate(taken, 1) if key.endswith("-close")), len(taken))
        for name, told in self.world.told.items():
            if self.plan.kafka and contents.follows_events(told.rules):
                continue  # each partition has a watermark of its own, which the oracles do not know
            steps = [part for key, step in taken[:first] for part in self._parts(key, step, told)]
            rows = contents.rows_of(f"{self.folder}/out/{name}", told.format)
            accounts = self.reports[first - 1].bolts[name].accounts
            problems += contents.differences(name, told.rules, steps, rows, accounts)
        return problems

    def _parts(self, key: str, step: Step, told: Told) -> list[dict[str, Any]]:
        """What a step is to a bolt that reads a spout, as steps of a scenario."""
        if key.endswith("-close"):
            return [{"close": True}]
        return contents.steps_of(self._lines(step, told), step.clock, event_time="timestamp_field" in told.rules)

    def _lines(self, step: Step, told: Told) -> list[str]:
        if self.world.broker is not None:
            return self.world.broker.lines(step.records)
        written = {name: lines for portion in self.plan.portions for name, lines in portion.files.items()}
        return [*chain(*(written[f"{told.spout}/{name}"] for name in step.of(told.spout)))]

    def _cut_alike(self) -> list[str]:
        """That every file was in one batch, in their order, and the batches as full as without faults."""
        problems: list[str] = []
        steps = [step for _, step in sorted(self.steps.items(), key=in_time)]
        for spout in () if self.plan.kafka else self.plan.spouts:
            found = [names for step in steps if (names := step.of(spout))]
            listed = [portion.named(spout) for portion in self.plan.portions]
            if self.went_back:  # what had come in two portions comes again in one
                found, listed = [[*chain(*found)]], [[*chain(*listed)]]
            most = max(len(listed[0]), 1) if self.went_back else self.plan.per_batch
            wanted = [names[at : at + most] for names in listed for at in range(0, len(names), most)]
            if [names for names in found if names] != wanted:
                problems.append(f"the files of {spout} were read as {found} and not as {wanted}")
        if self.world.broker is not None:
            problems += _all_once(
                [step.ends for key, step in sorted(self.steps.items(), key=in_time) if step.ends],
                self.world.broker.ends,
            )
        clocks = [step.clock for step in steps]
        if clocks != sorted(clocks):
            problems.append(f"the clock went back: {clocks}")
        return problems


def _all_once(batches: list[Ends], whole: Ends) -> list[str]:
    """That batches go on from each other, up to the end."""
    reached: Ends = {}
    for ends in batches:
        if any(ends.get(partition, 0) < end for partition, end in reached.items()):
            return [f"a batch goes back to {ends}, and the one before it came to {reached}"]
        reached = ends
    return [] if reached == whole else [f"the batches end at {reached}, and the topic at {whole}"]


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
