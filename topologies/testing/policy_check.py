"""A proof for users' policies: the same events, cut and crashed in many ways, must give the same windows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from policies.protocol import EvictionPolicy, Policy, TriggerPolicy, is_custom, overrides
from topologies.engine.micro_batch import PHASES, Phase
from topologies.testing.bolt_run import concat_inputs, inputs_of
from topologies.testing.given_rows import GivenRows, Moment, as_table, columns_of, given_moment
from topologies.testing.policy_guards import Watch, event_by_event, guarded, in_pieces
from topologies.testing.policy_runs import INPUT, Cut, GivenEvents, OtherProcess, Recorder, RunResult, Subject, picture
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls import checked_value
from windowing.durations import Duration, Extent, Time
from windowing.errors import ConfigError
from windowing.schema import SchemaLike
from windowing.timestamps import from_column, show

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_ALL_CUTS = 6
"""Most events for which all cuts are tried."""
_MOST_BATCHES = 200
"""Most batches of one run; with more events, only a range of them is cut one by one."""
_TO_SHRINK = 700
"""Most batches that are run to reduce a difference."""
_BOTH = "one batch of all events"
_BEYOND_THE_CALL = (
    "under guard: what a call gives is gone after it",
    "looks at more than its call gives it",
    "an event, or an array of some, is good for one call, and other events are not to be looked at: copy values, and "
    "keep them in context.state",
)
_BY_ITSELF = (
    "the same once more",
    "has other windows when the same run is done again",
    "they depend on a clock, on chance, or on what an earlier run has left in a variable; all that a policy may know "
    "is in its arguments",
)
_ON_ARRAYS = (
    "event by event, without the hooks on arrays",
    "decides otherwise on arrays than event by event",
    "track_all and evict_all must answer what track and evict answer, and leave the same state",
)
_IN_PIECES = (
    "track_all is called for each event",
    "has a track_all that depends on how it is called",
    "a call with the first events and one with the others must leave the state of one call with all",
)
_CUT = (
    "a batch ends at each line",
    "has other windows when batches end elsewhere",
    "what a policy knows of events must come from its arguments; hooks on arrays must give for two pieces what they "
    "give for both together; nothing may depend on which events it has not seen",
)
_TURNED = (
    "of the inputs, the last one comes first",
    "has other windows when its inputs come in another order",
    "a batch has the events of one input after those of another, so of events of several inputs at the same time "
    "either may be the first: decide at a moment after them (wake_at = event.timestamp + 1), or so that their order "
    "does not matter; where it does not matter to you, give them different times",
)
_CRASHED = (
    "each batch crashes once, and has new policy objects",
    "has other windows after a crash",
    "something is kept on the policy object, or in a variable, and is lost or counted twice: keep all that changes in "
    "context.state, and declare it in state_types",
)
_MOVED = (
    "has other windows with another number of tasks",
    "something is kept for all keys of a task together: context.state is that of one key",
)
_ELSEWHERE = (
    "in another process",
    "has other windows in another process",
    "texts have other hashes there, and a set of them another order: sort it, or use a dict or a list; and hash() "
    "gives other numbers",
)


class PolicyDiffers(AssertionError):
    """Raised if policies break the promise: the windows depend on more than the events."""

    def __init__(self, text: str, given: GivenEvents, first: RunResult | None = None, second: RunResult | None = None):
        super().__init__(text)
        self.events = given.by_input()
        """The fewest events that showed the difference, in the form that ``check_policy`` takes."""
        self.first, self.second = first, second
        """Results of the two runs that differ; None if a policy does something forbidden, whatever the results are."""


@dataclass(frozen=True, repr=False)
class CheckedWindow:
    """A window that fires in the same way however the events are cut."""

    key: str
    """The repr of its key; ``"None"`` without keys."""
    end_timestamp: int
    """End in microseconds."""
    start_timestamp: int | None
    events: list[dict[str, Any]]
    """The events in order, each with the columns of its input."""
    streams: list[str]
    """The input of each event."""

    def __repr__(self) -> str:
        key = "" if self.key == "None" else f" of {self.key:.40}"
        return f"<CheckedWindow{key}: {len(self.events)} events up to {show(self.end_timestamp)}>"


@dataclass(repr=False)
class PolicyCheck:
    """The extent of a check, and its windows."""

    windows: list[CheckedWindow] = field(default_factory=list)
    """The windows of the events, in order for each key; with a strategy, the windows of the last drawn events."""
    inputs: int = 0
    """Number of inputs: 1, or the number of drawn ones."""
    cuts: int = 0
    """Number of cuts of the input that were compared."""
    crashed: int = 0
    """Number of runs in which each batch crashed, and ran again with new policy objects."""
    moved: int = 0
    """Number of runs in which batches had different numbers of tasks."""
    notes: list[str] = field(default_factory=list)
    """Parts that could not be checked, with reasons."""

    def __repr__(self) -> str:
        inputs = "" if self.inputs == 1 else f"{self.inputs} inputs, "
        notes = "".join(f"; not checked: {each}" for each in self.notes)
        return (
            f"<PolicyCheck: {len(self.windows)} windows; {inputs}{self.cuts} cuts, {self.crashed} runs with crashes, "
            f"{self.moved} with other numbers of tasks: all alike{notes}>"
        )


@checked_value
def check_policy(
    events: GivenRows | Mapping[str, GivenRows] | SearchStrategy[Any],
    *,
    eviction: EvictionPolicy | None = None,
    trigger: TriggerPolicy | None = None,
    bolt: WindowedBolt | None = None,
    key: str | Sequence[str] = (),
    window: Extent | tuple[Extent, Extent] | None = None,
    timestamp_field: str | None = "ts",
    lag: Time | None = None,
    schema: SchemaLike | Mapping[str, SchemaLike] | None = None,
    clock: Sequence[Moment] | Mapping[str, Sequence[Moment]] | None = None,
    cuts: int = 30,
    examples: int = 10,
    seed: int = 0,
    other_process: bool = True,
) -> PolicyCheck:
    """Proves that windows depend only on the events, whatever happens between them. Raises PolicyDiffers otherwise.

    The events are cut into batches in all possible ways (for six or fewer), or in many drawn ways and one event per
    batch. The watermark moves at other places. Each batch crashes and runs again with new policy objects. With a key,
    the number of tasks changes between batches. Hooks on arrays are compared with hooks for single events. One run is
    in another process, where sets have another order. Guarded policies may not read a clock, nor an event after its
    call. A difference is shown with the fewest events that cause it, both ways side by side.

    Several inputs are a mapping, ``{"bids": [...], "asks": [...]}``, with the names of the events' streams; schemas and
    clocks are mappings too. Events come in the order of their times; those of one input keep their order. In one run,
    simultaneous events of different inputs come in the other order, because batches decide that order.

    Args:
        events: Rows in order of arrival, in the forms of ``run_bolt``; or a strategy of Hypothesis that draws rows.
        eviction: The eviction policy, which decides which events a window holds. Default: set by ``window``.
        trigger: The trigger policy, which decides when a window fires. Default: set by ``window``.
        bolt: A configured bolt, instead of policies and of the settings below. Its ``execute`` is not called.
        key: The columns of ``with_key``.
        window: A length, or a length and a slide, in place of a missing policy.
        timestamp_field: The column of the time; None for processing time.
        lag: The lag of the bolt. By default as much as the events are out of order, so that none is late.
        schema: The columns, if they do not follow from the rows.
        clock: In processing time, the clock at the arrival of each row; for several inputs, a mapping of such lists.
        cuts: Number of cuts that are drawn.
        examples: With a strategy, the number of inputs that are drawn.
        seed: For another draw.
        other_process: False leaves out the run in another process, which takes a second.

    If ``lag`` is smaller than the default, the watermark never moves past an event still to come, because otherwise the
    places where it moves would decide which events are late.

    Raises ConfigError for conflicting arguments, for a policy that fails or answers wrongly, and if no window holds an
    event, so that nothing would be proved.
    """
    for name, number in (("cuts", cuts), ("examples", examples)):
        if number < 1:
            raise ConfigError(f"check_policy({name}={number})", why="nothing would be compared", do="give 1 or more")
    configured = _bolt(bolt, eviction, trigger, key, window, timestamp_field, lag)
    check = PolicyCheck()
    if _is_strategy(events):
        _check_drawn(
            events, configured, schema, lag is None and bolt is None, cuts, examples, seed, other_process, check
        )
        return check
    subject, given = _prepare(events, configured, schema, clock, lag is None and bolt is None)
    _Checking(subject, given, check, random.Random(seed), cuts).all(other_process=other_process)
    if not check.windows:
        raise ConfigError(
            f"no window fires for these {len(given)} events",
            why="with no windows there is nothing to compare, and every policy would pass",
            do="give events for which the trigger fires, and which the eviction lets a window hold",
        )
    return check


def _bolt(
    bolt: WindowedBolt | None,
    eviction: EvictionPolicy | None,
    trigger: TriggerPolicy | None,
    key: str | Sequence[str],
    window: Any,
    timestamp_field: str | None,
    lag: Time | None,
) -> WindowedBolt:
    """Returns a bolt with these policies that records its windows."""
    for name, policy in (("eviction", eviction), ("trigger", trigger)):
        if isinstance(policy, type):
            raise ConfigError(
                f"check_policy({name}={policy.__name__})",
                why="that is a class",
                do=f"give an instance: {policy.__name__}()",
            )
    if bolt is not None:
        if eviction is not None or trigger is not None or key or window is not None or lag is not None:
            raise ConfigError(
                "check_policy with a bolt, and with settings of one",
                why="a configured bolt has its policies, key, windows and lag",
                do="give the bolt alone, or the policies with key=, window= and lag=",
            )
        if not isinstance(bolt, WindowedBolt):
            raise ConfigError(f"bolt={bolt!r:.60}", why="it has no windows", do="give an instance of a WindowedBolt")
        if bolt.settings.timestamp_extractor is not None:
            raise ConfigError(
                "check_policy of a bolt with a timestamp extractor",
                why="it has to know the times of the events, to move the watermark where none is late",
                do="give events with a column of times, and a bolt with with_timestamp_field",
            )
        recorder: WindowedBolt = Recorder().configured(bolt.settings)
    else:
        recorder = Recorder()
        if timestamp_field is not None:
            recorder = recorder.with_timestamp_field(timestamp_field).with_lag(lag or Duration(0))
        if key:
            recorder = recorder.with_key(key)
        if window is not None:
            recorder = recorder.with_window(*(window if isinstance(window, tuple) else (window,)))
        if eviction is not None or trigger is not None:
            recorder = recorder.with_policies(eviction=eviction, trigger=trigger)
    settings = recorder.settings
    if settings.eviction is None and settings.trigger is None:
        raise ConfigError(
            "check_policy without a policy", do="give eviction=, trigger=, or a bolt that has one (with_policies)"
        )
    return recorder


def _prepare(
    events: Any,
    bolt: WindowedBolt,
    schema: SchemaLike | Mapping[str, SchemaLike] | None,
    clock: Sequence[Moment] | Mapping[str, Sequence[Moment]] | None,
    chosen_lag: bool,
) -> tuple[Subject, GivenEvents]:
    """Returns the subject of the check, and the events with their times, in order of arrival."""
    inputs = inputs_of(events, INPUT, schema)
    clocks = _clocks(clock, list(inputs))
    field_name = bolt.settings.timestamp_field
    tables, times = dict[str, pa.Table](), dict[str, list[int | None]]()
    for name, given_rows in inputs.items():
        rows = list(given_rows) if hasattr(given_rows, "__next__") else given_rows
        columns = columns_of(name, inputs, rows, schema, () if field_name is None else (field_name,))
        what = "events" if len(inputs) == 1 else f"events of {name!r}"
        tables[name] = as_table(what, rows, columns)
        times[name] = _times(tables[name], what, field_name, clocks.get(name))
    given = _merge(tables, times, clocked=field_name is None)
    if field_name is not None and chosen_lag:
        bolt = bolt.with_lag(Duration(_disorder(given)))
    return Subject(bolt, {name: table.schema for name, table in tables.items()}), given


def _clocks(
    clock: Sequence[Moment] | Mapping[str, Sequence[Moment]] | None, inputs: Sequence[str]
) -> Mapping[str, Sequence[Moment]]:
    """Returns the clocks of inputs by name. Raises ConfigError if their inputs are not clear."""
    by_input = clock if isinstance(clock, Mapping) else {} if clock is None else dict.fromkeys(inputs[:1], clock)
    unknown = by_input.keys() - set(inputs)
    if unknown or (len(inputs) > 1 and clock is not None and by_input is not clock):
        shown = ", ".join(f"{name!r}: [...]" for name in inputs)
        raise ConfigError(
            f"clock has times of {sorted(unknown)}" if unknown else "clock is one list, and there are several inputs",
            why=f"the inputs are {', '.join(map(repr, inputs))}, and each event has the clock at its own arrival",
            do=f"give clock={{{shown}}}, a time for each event of each" if len(inputs) > 1 else "give clock=[...]",
        )
    return by_input


def _times(table: pa.Table, what: str, field_name: str | None, clock: Sequence[Moment] | None) -> list[int | None]:
    """Returns the time of each event of an input in microseconds; None without a time."""
    if field_name is not None and field_name not in table.column_names:
        raise ConfigError(
            f"timestamp_field={field_name!r} is not a column" + ("" if what == "events" else f" of the {what}"),
            why=f"the columns are {', '.join(table.column_names)}",
            do="name one of them, or give timestamp_field=None for processing time",
        )
    if field_name is not None and clock is not None:
        raise ConfigError(
            "check_policy with a clock, and events with times of their own",
            why="the clock is the time of events in processing time",
            do="leave clock out, or give timestamp_field=None",
        )
    if field_name is None and (clock is None or len(clock) != table.num_rows):
        raise ConfigError(
            f"clock has {0 if clock is None else len(clock)} times for {table.num_rows} {what}",
            why="in processing time an event has the time of its arrival",
            do="give clock=[...], a time for each event, none before the one before it",
        )
    if field_name is None:
        assert clock is not None
        return [given_moment(f"clock[{at}]", each) for at, each in enumerate(clock)]
    micros, reasons = from_column(table.column(field_name))
    bad = [False] * len(micros) if reasons is None else (reasons != "").tolist()
    return [None if each else time for time, each in zip(micros.tolist(), bad, strict=True)]


def _merge(tables: Mapping[str, pa.Table], times: Mapping[str, list[int | None]], *, clocked: bool) -> GivenEvents:
    """Returns the events of all inputs in order of arrival: by the latest time so far in their input, so that events of
    an input keep their order."""
    arrivals: list[tuple[int, str, int | None]] = []
    for name, of_input in times.items():
        latest = min((each for each in of_input if each is not None), default=0)
        for time in of_input:
            latest = latest if time is None else max(latest, time)
            arrivals.append((latest, name, time))
    order = sorted(range(len(arrivals)), key=lambda index: arrivals[index][0])  # stable
    return GivenEvents(
        concat_inputs(tables).take(pa.array(order, pa.int64())),
        tuple(arrivals[index][2] for index in order),
        clocked,
        tuple(arrivals[index][1] for index in order),
        {name: table.column_names for name, table in tables.items()},
    )


def _disorder(given: GivenEvents) -> int:
    """Returns how far the events are out of order, in microseconds."""
    most, latest = 0, None
    for time in given.times:
        if time is not None:
            latest = time if latest is None else max(time, latest)
            most = max(most, latest - time)
    return most


# ---- with Hypothesis


def _is_strategy(events: object) -> bool:
    return type(events).__module__.partition(".")[0] == "hypothesis"


def _check_drawn(
    strategy: Any,
    bolt: WindowedBolt,
    schema: SchemaLike | Mapping[str, SchemaLike] | None,
    chosen_lag: bool,
    cuts: int,
    examples: int,
    seed: int,
    other_process: bool,
    check: PolicyCheck,
) -> None:
    """Checks inputs that Hypothesis draws, small ones first; this function, not Hypothesis, reduces a difference."""
    import hypothesis
    from hypothesis import HealthCheck

    found: list[list[CheckedWindow]] = []
    largest: list[tuple[Subject, GivenEvents]] = []

    def one(rows: Any) -> None:
        if not any(map(len, inputs_of(rows, INPUT, schema).values())):  # type: ignore[arg-type]
            return
        prepared = _prepare(rows, bolt, schema, None, chosen_lag)
        _Checking(*prepared, check, random.Random(seed), max(cuts // 3, 5)).all(other_process=False)
        if check.windows:
            found.append(check.windows)
            if not largest or len(prepared[1]) > len(largest[0][1]):
                largest[:] = [prepared]

    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    decorators: Any = hypothesis
    decorators.seed(seed)(settings(decorators.given(strategy)(one)))()
    if not found:
        raise ConfigError(
            f"no window fires for {examples} inputs that were drawn",
            why="with no windows there is nothing to compare, and every policy would pass",
            do="draw events for which the trigger fires, and which the eviction lets a window hold",
        )
    check.windows = found[-1]
    if other_process:
        checking = _Checking(*largest[0], PolicyCheck(), random.Random(seed), 1)
        checking.first = checking.subject.run(largest[0][1], Cut())
        checking.in_another_process()
        check.notes += checking.check.notes


# ---- one input


@dataclass(frozen=True)
class _Variant:
    """A second way to run the events, with the explanation for a difference."""

    cut: Cut
    run: Callable[[GivenEvents, Cut], RunResult]
    side: str
    """Title of the second side of the picture."""
    problem: str
    advice: str


class _Checking:
    """All runs of one input."""

    def __init__(
        self, subject: Subject, given: GivenEvents, check: PolicyCheck, chance: random.Random, cuts: int
    ) -> None:
        self.subject, self.given, self.check, self._chance, self._cuts = subject, given, check, chance, cuts
        self.first = RunResult()
        self._watch = Watch()
        self._still = frozenset(at for at, may in enumerate(given.may_tick(subject.lag)) if not may)

    def all(self, *, other_process: bool) -> None:
        """Raises PolicyDiffers for the first way whose result differs."""
        self._guard()
        self.first = self.subject.run(self.given, Cut())
        if self.first.error:
            raise ConfigError("a policy fails", why=self.first.error, do="mend it first: only whole runs are compared")
        self.check.inputs += 1
        rows, inputs = self.given.events(), self.given.inputs
        self.check.windows = [
            CheckedWindow(
                each.key,
                each.end,
                each.start,
                [rows[place] for place in each.events],
                [inputs[place] for place in each.events],
            )
            for each in self.first.windows
        ]
        for variant in self._variants():
            self._compare(variant)
        if other_process:
            self.in_another_process()

    def _guard(self) -> None:
        """Runs the policies under guard; one event per batch is not needed, because the calls are the same."""
        watch = self._watch
        guarded_result = self.subject.with_change(lambda policy: guarded(policy, watch)).run(self.given, Cut())
        if watch.mistakes:
            given = self._fewest_mistaken()
            text = "\n".join(f"- {each}" for each in watch.mistakes)
            shown = _last_events_in_words(given)
            raise PolicyDiffers(
                f"{self._names()}: what no policy may do\n{text}\nSeen with these events:\n{shown}", given
            )
        unguarded_result = self.subject.run(self.given, Cut())
        if not unguarded_result.error and not guarded_result.same(unguarded_result):
            if guarded_result.error:
                raise PolicyDiffers(
                    f"{self._names()} fails where an event cannot be reached but by the call that it is given to:\n"
                    f"  {guarded_result.error}\nThe others are not a policy's to look at: what has come by then "
                    "depends on where batches end.",
                    self.given,
                )
            run_guarded = self.subject.with_change(lambda policy: guarded(policy, Watch())).run
            if self.subject.run(self.given, Cut()).same(
                unguarded_result
            ):  # otherwise the plain difference is reported below
                self._compare(_Variant(Cut(), run_guarded, *_BEYOND_THE_CALL))

    def _fewest_mistaken(self) -> GivenEvents:
        """Returns the fewest first events with which a guarded policy makes a mistake."""
        low, high = 1, len(self.given)
        while low < high:
            middle, watch = (low + high) // 2, Watch()
            some = self.given.take(range(middle))
            self.subject.with_change(lambda policy, watch=watch: guarded(policy, watch)).run(some, Cut())  # type: ignore[misc]
            low, high = (low, middle) if watch.mistakes else (middle + 1, high)
        return self.given.take(range(low))

    def _variants(self) -> Iterator[_Variant]:
        run, policies = self.subject.run, self.subject.policies()
        side, problem, advice = _BY_ITSELF
        calls = "".join(f"\n  It calls {each}." for each in list(self._watch.chance)[:3])
        yield _Variant(Cut(), run, side, problem, advice + calls)
        if any(event_by_event(each) is not None for each in policies):
            yield _Variant(Cut(), self.subject.with_change(lambda each: event_by_event(each) or each).run, *_ON_ARRAYS)
        if in_pieces(policies[0]) is not None:
            yield _Variant(Cut(), self.subject.with_change(lambda each: in_pieces(each) or each).run, *_IN_PIECES)
        cuts = list(self._drawn_cuts())
        for cut in cuts:
            self.check.cuts += 1
            yield _Variant(cut, run, *_CUT)
        if len(self.given.columns) > 1 and not self.given.clocked and self._may_turn():
            yield _Variant(Cut(turned=True), run, *_TURNED)
        some = cuts[: max(self._cuts // 3, 2)]
        phases: list[Phase] = [each for each in PHASES if each != "compact"]
        for number, cut in enumerate(some):
            self.check.crashed += 1
            order = self._chance.sample(phases, len(phases)) if number else [phases[-3]]
            yield _Variant(replace(cut, crash=tuple(order)), run, *_CRASHED)
        for number, cut in enumerate(some if self.subject.key else ()):
            self.check.moved += 1
            tasks = (3,) if number == 0 else tuple(self._chance.choice([1, 2, 3, 4]) for _ in range(5))
            yield _Variant(replace(cut, tasks=tasks), run, f"with {', '.join(map(str, tasks))} tasks, in turn", *_MOVED)

    def _may_turn(self) -> bool:
        """True if windows should not depend on which input comes first."""
        node = self.subject.topology(1).windowed[self.subject.name]
        why = ""
        if overrides(node.trigger, "on_arrival"):
            why = "on_arrival follows arrival"
        elif node.follows_events:
            why = "watermarks at events do, and so which events are late"
        if why and "order of the inputs" not in "".join(self.check.notes):
            self.check.notes.append(f"that windows do not depend on the order of the inputs ({why})")
        return not why

    def _drawn_cuts(self) -> Iterator[Cut]:
        """Yields the cut into single events, then others; all possible cuts if they are few."""
        count = len(self.given)
        one_by_one: Sequence[int] = range(1, count)
        if count > _MOST_BATCHES:
            start = self._chance.randint(1, count - _MOST_BATCHES)
            one_by_one = range(start, start + _MOST_BATCHES)
        yield self._cut(one_by_one)
        if count <= _ALL_CUTS:
            for size in range(count - 1):
                for ends in combinations(range(1, count), size):
                    yield self._cut(ends)
            return
        for number in range(self._cuts - 1):
            most = min(count - 1, _MOST_BATCHES, 2 + number)
            drawn = self._chance.sample(range(1, count), self._chance.randint(1, most))
            cut = self._cut(sorted(drawn))
            some = frozenset(end for end in cut.ends if self._chance.random() < 0.3)
            yield replace(cut, still=cut.still | some) if number % 2 else cut

    def _cut(self, ends: Sequence[int]) -> Cut:
        return Cut(tuple(ends), self._still & frozenset(ends))

    def _changed_attributes(self) -> str:
        """Lists the attributes that policies have changed on themselves, as advice."""
        policies = self.subject.policies()
        before = [dict(getattr(each, "__dict__", {})) for each in policies]
        shown = [{name: repr(value) for name, value in fields.items()} for fields in before]
        subject = self.subject.with_change(lambda policy: policy)
        subject.policies = lambda: policies  # type: ignore[method-assign]
        subject.run(self.given, Cut())
        changed = [
            f"\n  {type(policy).__name__} has changed self.{name}"
            for policy, fields in zip(policies, shown, strict=True)
            for name, value in getattr(policy, "__dict__", {}).items()
            if fields.get(name) != repr(value)
        ]
        return "".join(changed)

    def in_another_process(self) -> None:
        """Compares the run with one in another process, where sets have another order."""
        try:
            other = OtherProcess(self.subject)
        except (PicklingError, AttributeError, TypeError, OSError) as error:
            self.check.notes.append(f"the order of sets in another process ({error})")
            return
        try:
            answer = other.ask(self.given, Cut())
            if answer is None or (answer.error and not self.first.error):
                why = "it could not import the policies" if answer is None else answer.error
                self.check.notes.append(f"the order of sets in another process ({why})")
                return
            self._compare(_Variant(Cut(), lambda given, cut: other.ask(given, cut) or RunResult(), *_ELSEWHERE))
        finally:
            other.close()

    # -- differences

    def _compare(self, variant: _Variant) -> None:
        first = self.first if self.first.accounts else self.subject.run(self.given, Cut())
        second = variant.run(self.given, variant.cut)
        if not first.same(second):
            raise self._differs(variant, first, second)

    def _differs(self, variant: _Variant, first: RunResult, second: RunResult) -> PolicyDiffers:
        shrunk = _Shrinking(self.subject, variant, self.given, first, second).fewest()
        given, cut, first, second = shrunk
        shown = picture(given, first, second, cut, (_BOTH, variant.side))
        kept = self._changed_attributes() if cut.crash else ""
        text = f"{self._names()} {variant.problem}.\n{shown}\n{variant.advice}{kept}."
        return PolicyDiffers(text, given, first, second)

    def _names(self) -> str:
        policies: list[Policy] = [each for each in self.subject.policies() if is_custom(each)]
        return " with ".join(repr(each).rpartition("<locals>.")[2] for each in policies)


class _Shrinking:
    """Reduces an input and a cut while two runs still differ."""

    def __init__(
        self, subject: Subject, variant: _Variant, given: GivenEvents, first: RunResult, second: RunResult
    ) -> None:
        self._subject, self._variant, self._batches_left = subject, variant, _TO_SHRINK
        self._found = given, variant.cut, first, second
        self._numbers = list(range(len(given)))

    def fewest(self) -> tuple[GivenEvents, Cut, RunResult, RunResult]:
        """Returns the smallest input and cut found, with the results of both runs."""
        self._fewer_batches()
        self._fewer_events()
        self._fewer_batches()
        return self._found

    def _fewer_batches(self) -> None:
        cut = self._found[1]
        for end in cut.ends:
            if len(cut.ends) > 2 and self._differs(self._found[0], replace(cut, ends=(end,))):
                return
        size = max(len(self._found[1].ends) // 2, 1)
        while size:
            at = 0
            while at < len(self._found[1].ends):
                given, cut = self._found[:2]
                if not self._differs(given, replace(cut, ends=cut.ends[:at] + cut.ends[at + size :])):
                    at += size
            size //= 2

    def _fewer_events(self) -> None:
        size = max(len(self._found[0]) // 2, 1)
        while size:
            at = 0
            while at < len(self._found[0]):
                given, cut = self._found[:2]
                remaining = [place for place in range(len(given)) if not at <= place < at + size]
                if not remaining or not self._differs(given.take(remaining), _cut_without(cut, at, size, len(given))):
                    at += size
            size //= 2

    def _differs(self, given: GivenEvents, cut: Cut) -> bool:
        batches = 3 + len(cut.spans(len(given)))
        if self._batches_left < batches:
            return False
        self._batches_left -= batches
        may = given.may_tick(self._subject.lag)
        cut = replace(cut, still=cut.still | {end for end in cut.ends if not may[end]})
        first, second = self._subject.run(given, Cut()), self._variant.run(given, cut)
        if first.error or first.same(second):
            return False
        self._found = given, cut, first, second
        return True


def _cut_without(cut: Cut, at: int, size: int, count: int) -> Cut:
    """Returns a cut of the remaining events after some were removed."""

    def new_end(end: int) -> int:
        return end if end <= at else max(end - size, at)

    last = count - size
    ends = tuple(sorted({new_end(end) for end in cut.ends if 0 < new_end(end) < max(last, 0)}))
    return replace(cut, ends=ends, still=frozenset(new_end(end) for end in cut.still))


def _last_events_in_words(given: GivenEvents) -> str:
    rows = given.events()
    names = [f"{each}: " if len(given.columns) > 1 else "" for each in given.inputs]
    shown = [f"  {name}{row}" for name, row in zip(names[-5:], rows[-5:], strict=True)]
    return "\n".join(([f"  ... ({len(rows) - 5} before)"] if len(rows) > 5 else []) + shown)
