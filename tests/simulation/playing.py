"""Plays a seed: its runs with all their faults, then the same steps without any."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from manager.accounts import ACCOUNTS
from manager.storage import segment_files
from manager.storage.manifest import batch_number
from tests.simulation import contents
from tests.simulation.always import differing, rows_after
from tests.simulation.broker import Ends
from tests.simulation.case import Case
from tests.simulation.disk import Crash, Disk
from tests.simulation.faults import NEW_CODE, OLD_LISTINGS, WRITES, Weather
from tests.simulation.judging import Outcome, differences, outcome
from tests.simulation.layouts import Layouts, Tasks
from tests.simulation.pauses import Stopped, flip_a_bit, flip_back, go_back_somewhere
from tests.simulation.rescaling import REFUSED, Misplaced, Rescaling
from tests.simulation.runs import CalmRun, Step, WildRun, in_time
from tests.simulation.store.drivers import Driver
from tests.simulation.store.place import EndlessRequests, StorePlace
from tests.simulation.world.bolts import CODE
from tests.simulation.world.world import CannotBeBuilt, Told, World, words_of
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescale import move_tasks
from topologies.engine.report import BatchReport
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
        try:
            return _Play(case, folder).played
        finally:
            CODE.version = 0  # other tests of this process have these bolts too


class _Play:
    def __init__(self, case: Case, folder: str) -> None:
        self.plan, self.played = case.world, Played(case)
        self.chance = random.Random(f"play {case.seed}")
        CODE.version = 0
        self.steps: dict[str, Step] = {}
        self.plans: dict[str, str] = {}
        """What batches were planned to be, as JSON, while that must hold."""
        self.begun_with: dict[str, set[str]] = {}
        """By batch, the numbers of tasks and the code with which it has begun."""
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
        self.layouts = Layouts(f"{self.disk.data}/ck")
        self.rescaling = Rescaling(self.world, self.layouts, self.chance, self._tell)
        self.rescaled = any(fault.kind == "it is rescaled" for fault in case.faults)
        self.folder = self.disk.data
        self.store = StorePlace(self.chance, self.weather, self.plan.keep, self._committed) if self.plan.store else None
        try:
            wild = self._wild()
            self.played.problems += self._cut_alike()
            self._clear()
            calm = self._calm()
            losers = self.store is not None and self.store.taken_over
            relaid = {serial_of(key) for key, begun in self.begun_with.items() if len(begun) > 1}
            self.played.problems += differences(wild, calm, losers=losers, relaid=relaid)
            if not self.played.problems:
                self.played.problems += self._contents() or self._as_always()
        except (Wrong, Misplaced) as error:
            self.played.problems.append(str(error).replace(f"{self.folder}/", ""))
        played, weather = self.played, self.weather
        played.happened, played.met, played.operations = weather.happened, weather.met, weather.operations
        played.lives, played.steps = weather.life, len(self.steps)

    def _phase(self) -> str:
        return str(getattr(self.run, "simulated_phase", ""))

    def _wild(self) -> Outcome:
        """All portions, with all faults."""
        with self._mounted():
            for portion in range(len(self.plan.portions)):
                self.world.deliver(portion)
                self.disk.settle()
                last = portion == len(self.plan.portions) - 1
                if last:
                    self.late.clear()
                live = self._live if self.store is None else self._live_in(self.store)
                for _ in range(100):
                    if live(portion, calm=last):
                        break
                else:
                    raise Wrong("the run comes to no end")
        return self._outcome()

    def _outcome(self) -> Outcome:
        if self.store is not None:
            self.store.objects.put_into(self.folder)
        return outcome(self.folder, self.world, in_order=not self.rescaled)

    @contextmanager
    def _mounted(self) -> Iterator[None]:
        with self.disk.mounted(), nullcontext() if self.store is None else self.store.mounted():
            yield

    @contextmanager
    def _without_faults(self) -> Iterator[None]:
        """What lies under a run that nothing happens to: the real file system, or the store."""
        with self.disk.drawing_names(), nullcontext() if self.store is None else self.store.mounted():
            yield

    def _live_in(self, store: StorePlace) -> Callable[..., bool]:
        return partial(self._live_of_drivers, store)

    def _live_of_drivers(self, store: StorePlace, portion: int, *, calm: bool) -> bool:
        """One process, and perhaps some that take the checkpoint over; whether one has come to the end of the input."""
        self.disk.start()
        self._begin_life(calm=calm)
        self.disk.before = self._count
        self.world.before_call = (lambda: None) if calm else self.weather.of_sink
        drivers = store.live(lambda: self._run_once(portion, rescaled=False), calm=calm)
        for driver in drivers:
            self._judge_driver(driver)
        if not calm:
            self.weather.end()
        if store.watch.problems:
            raise Wrong(store.watch.problems[0])
        return any(driver.error is None and not driver.lost for driver in drivers)

    def _judge_driver(self, driver: Driver) -> None:
        match driver.error:
            case None | Crash():
                return
            case CheckpointError() as error if driver.lost and "has been taken over by" in error.what and error.do:
                self._tell(f"{driver.name} has lost: {error.what}")
            case Exception() as error if not isinstance(error, Wrong):
                self.weather.justified = driver.justified
                self._judge(error)
            case EndlessRequests() as error:
                raise Wrong(str(error))
            case error:
                raise error

    def _committed(self, run: WildRun, key: str) -> None:
        """A store has a batch of this run."""
        self.steps[key] = run.begun[key]

    def begins(self, run: WildRun) -> None:
        """Called when a run is made."""
        self.run = run
        if self.store is not None and self.store.drivers.now is not None:
            self.store.drivers.now.run = run

    def planned(self, key: str, plan: dict[str, Any]) -> None:
        """Called when a run knows what a batch is: one that runs again is what it was, unless its plan may be gone."""
        self.begun_with.setdefault(key, set()).add(json.dumps([CODE.version, self.world.tasks], sort_keys=True))
        if self.store is not None and self.store.taken_over:
            return
        now = json.dumps(plan, sort_keys=True)
        before = self.plans.setdefault(key, now)
        if before != now:
            raise Wrong(f"batch {key} was planned as {before}, and is now {now}")

    def _live(self, portion: int, *, calm: bool) -> bool:
        """One process; whether it has come to the end of the input."""
        segment_files._VERIFIED.clear()
        self.disk.start()
        self._begin_life(calm=calm)
        if not calm and self.weather.of_start(OLD_LISTINGS):
            self.disk.list_as_before()
        self.layouts.note()
        pause = None if calm else self.weather.of_pause()
        flipped = flip_a_bit(f"{self.folder}/ck", self.chance) if pause == "a bit flips" else None
        if flipped is not None:
            self.weather.happened.append(f"  in {self.disk.short(flipped.path)}, at {flipped.at}")
        self.disk.before = self._count if calm else self.weather.before
        self.world.before_call = (lambda: None) if calm else self.weather.of_sink
        try:
            if pause == "it goes back" or self.going_back is not None:
                self._go_back()
                self.layouts.note()
            self._run_once(portion, rescaled=pause == "it is rescaled")
        except Crash:
            if self.weather.cut:
                self.plans.clear()
                self.weather.happened += [f"  lost: {words}" for words in self.disk.cut_power()]
        except Misplaced:
            raise
        except Exception as error:
            self._judge(error)
        else:
            if not self.disk.dead:
                return True
            raise Wrong("a run continued after its process had died")
        finally:
            self.run = None
            if flipped is not None:
                flip_back(flipped)
            if not calm:
                self.weather.end()
        return False

    def _begin_life(self, *, calm: bool) -> None:
        self.weather.begin()
        self.weather.calm = calm
        if not calm and self.weather.of_start(NEW_CODE):
            CODE.version += 1

    def _go_back(self) -> None:
        """Go back to one of the batches that are kept, or on with it where that was interrupted."""
        key = go_back_somewhere(f"{self.folder}/ck", self.chance, self.going_back, self._going_back)
        self.going_back = None
        if key is not None:
            self.weather.happened.append(f"life {self.weather.life}: it is back at batch {key}")

    def _going_back(self, key: str) -> None:
        """What later batches did is undone, from here on."""
        self.going_back, self.went_back = key, True
        self.layouts.forget_after(key)
        self.plans.clear()
        for steps in (self.steps, self.begun_with):
            for step in [step for step in steps if step > key]:
                del steps[step]
        for serial in [serial for serial in self.world.calls if serial > serial_of(key)]:
            del self.world.calls[serial]

    def _second_driver(self) -> None:
        """Another process on the same checkpoint: it is refused, and changes nothing."""
        first = self.run
        if first is None or not first.locked:
            return
        before, self.disk.before = self.disk.before, _may_only_read
        try:
            with LocalRun(self.world.topology, self.world.options(keep_open=False)) as second:
                second.run()
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
            raise Wrong(f"no fault justifies this error: {what}\n{said}")
        if not clear(error):
            raise Wrong(f"an error without clear words: {what}\n{said}")

    def _tell(self, words: str) -> None:
        self.weather.happened.append(f"life {self.weather.life}: {words}")

    def opened(self, run: WildRun) -> None:
        """Called when a run has opened the checkpoint."""
        if run.options.allow_rescale and self.rescaling.wanted is not None:
            self.rescaling.moved(self.world.tasks)

    def _run_once(self, portion: int, *, rescaled: bool) -> None:
        flush = self.plan.portions[portion].flush
        triggers = self.plan.portions[portion].triggers
        rest = {"every": "1s", "stop": Stopped(triggers)} if triggers else {"keep_open": not flush}
        options = self.world.options(clock=self._now, on_report=_check_accounts, **rest)
        if self.rescaling.begin(asked=rescaled):
            try:
                with ExitStack() as entered:
                    with self.rescaling.by_the_run():
                        options_once = replace(options, allow_rescale=True)
                        run = entered.enter_context(WildRun(self.world.topology, options_once, self))
                    run.run()
                return
            except CheckpointError as error:
                if REFUSED not in error.what:
                    raise
        with WildRun(self.world.topology, options, self) as run:
            run.run()

    def _now(self) -> int:
        """A clock that advances, stands still, jumps, and goes back."""
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
        segment_files._VERIFIED.clear()
        with self._without_faults():
            if self.store is not None:
                self.store.anew()
            self.world.before_call = lambda: None
            options = self.world.options(keep_open=True, on_report=self.reports.append)
            self.world.tasks = dict(next(iter(self.steps.values())).tasks) if self.steps else self.world.tasks
            for moves, steps in self._between_moves():
                for tasks in moves:
                    self._move(tasks)
                if any(step.tasks != self.world.tasks for step in steps.values()):
                    raise Wrong(f"it has {self.world.tasks}, and ran with {[step.tasks for step in steps.values()]}")
                with CalmRun(self.world, options, steps) as run:
                    run.run()
        return self._outcome()

    def _between_moves(self) -> Iterator[tuple[list[Tasks], dict[str, Step]]]:
        """The moves to other tasks, each followed by the steps up to the next one."""
        moves: list[Tasks] = []
        part: dict[str, Step] = {}
        for key, step in sorted(self.steps.items(), key=in_time):
            part[key] = step
            after = self.layouts.moves(key)
            if after:
                yield moves, part
                moves, part = after, {}
        yield moves, part

    def _move(self, tasks: Tasks) -> None:
        self.world.tasks = {name: tasks[name] for name in self.world.tasks}
        halves = PairedCheckpoint(f"{self.folder}/ck")
        halves.lock.take()
        try:
            move_tasks(halves, self.world.tasks, self.world.topology)
        finally:
            halves.lock.release()

    def _as_always(self) -> list[str]:
        """In what the output after the last move differs from that of a run that always had so many tasks."""
        moved = [key for key in self.steps if self.layouts.moves(key)]
        if not moved:
            return []
        found = rows_after(self.world, max(moved))
        self._clear()
        with self._without_faults(), CalmRun(self.world, self.world.options(keep_open=True), self.steps) as run:
            run.run()
        return differing(found, rows_after(self.world, max(moved)))

    def _contents(self) -> list[str]:
        """In what windows differ from those that the events and clocks of the steps demand."""
        problems: list[str] = []
        taken = sorted(self.steps.items(), key=in_time)
        first = next((at for at, (key, _) in enumerate(taken, 1) if key.endswith("-close")), len(taken))
        for name, told in self.world.told.items():
            if self.plan.kafka and "preset" in told.rules:
                continue  # each partition has a watermark of its own, which the oracles do not know
            steps = [part for key, step in taken[:first] for part in self._parts(key, step, told)]
            rows = contents.rows_of(f"{self.folder}/out/{name}", told.format)
            reports = [report.bolts[name] for report in self.reports[:first]]
            marks = [each.watermark for each, (key, _) in zip(reports, taken, strict=False) if key[-6:] != "-close"]
            problems += contents.differences(
                name, told.rules, steps, rows, reports[-1].accounts, inputs=told.inputs, watermarks=marks
            )
        return problems

    def _parts(self, key: str, step: Step, told: Told) -> list[dict[str, Any]]:
        """What a step is to a bolt that reads spouts, as steps of a scenario."""
        if key.endswith("-close"):
            return [contents.closing_of(step.clock, told.rules)]
        return contents.steps_of({spout: self._lines(step, spout) for spout in told.inputs}, step.clock, told.rules)

    def _lines(self, step: Step, spout: str) -> list[str]:
        if self.world.broker is not None:
            return self.world.broker.lines(step.records)
        written = {name: lines for portion in self.plan.portions for name, lines in portion.files.items()}
        return [*chain(*(written[f"{spout}/{name}"] for name in step.of(spout)))]

    def _cut_alike(self) -> list[str]:
        """That every file was in one batch, in their order, and the batches as full as without faults."""
        problems: list[str] = []
        steps = [step for _, step in sorted(self.steps.items(), key=in_time)]
        for spout in () if self.plan.kafka else self.plan.spouts:
            found = [names for step in steps if (names := step.of(spout))]
            listed = [portion.named(spout) for portion in self.plan.portions]
            recut = self.went_back or (self.store is not None and self.store.taken_over)
            if recut:  # what had come in two portions comes again in one
                found, listed = [[*chain(*found)]], [[*chain(*listed)]]
            most = max(len(listed[0]), 1) if recut else self.plan.per_batch
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
    """That batches continue from each other, up to the end."""
    reached: Ends = {}
    for ends in batches:
        if any(ends.get(partition, 0) < end for partition, end in reached.items()):
            return [f"a batch goes back to {ends}, and the one before it came to {reached}"]
        reached = ends
    return [] if reached == whole else [f"the batches end at {reached}, and the topic at {whole}"]


def serial_of(key: str) -> int:
    """The number that the function of a sink is given for a batch."""
    return 2 * batch_number(key) + key.endswith("-close")


def _may_only_read(operation: str, path: str) -> None:
    if operation in WRITES:
        raise Wrong(f"a second driver changes files: {operation} {path}")


def clear(error: Exception) -> bool:
    """Whether an error says what and what to do."""
    if isinstance(error, StorageError):
        return bool(error.doing and error.what and error.why and error.do)
    return isinstance(error, WindboltError) and bool(error.what and error.do)


def _check_accounts(report: BatchReport) -> None:
    """That after each commit every event is in exactly one account."""
    for name, bolt in report.bolts.items():
        held = sum(bolt.accounts[account] for account in ACCOUNTS) + bolt.accounts["pending"]
        if held != bolt.accounts["received"]:
            raise Wrong(f"the accounts of {name} do not add up after {report.batch}: {bolt.accounts}")
