"""``windbolt run``, ``check`` and ``describe``: a topology, on Spark or in this process."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Annotated

import typer
from rich.text import Text

from manager.storage.checkpoint import KEPT_BATCHES
from topologies.background import Run, Runner, runner
from topologies.checkpoints.inspect_spouts import suspicious_input
from topologies.checkpoints.preflight import blocked_watermark_warnings
from topologies.cli.consoles import FAILED, Debug, err, in_words, out, readable_errors, say, survive_closed_output
from topologies.cli.displays import ProgressDisplay, print_summary, progress_display
from topologies.graph.graph import Graph
from topologies.run.metrics_server import SERVERS
from topologies.run.options import (
    PAGE_PORT,
    RESTARTS,
    Address,
    ComingRestart,
    Engine,
    Restart,
    RunOptions,
    check_engine,
)
from topologies.run.summary import Summary
from topologies.scenarios.named_topology import load_topology
from topologies.step.config_files import (
    FurtherChecks,
    StepConfig,
    StepConfigError,
    StepProblem,
    load_step,
    names_step_file,
)
from windowing.durations import as_duration
from windowing.errors import ConfigError, TopologyError, WindboltError
from windowing.reprs import error_text, printable

# Keeps the page of a run open after the run has ended, if a user is at a terminal.


class RunOfPage:
    """The run whose page may stay open."""

    def __init__(self) -> None:
        self._options: RunOptions | None = None

    def begin(self, options: RunOptions) -> None:
        """Called before the run with its options; prints the address of its page."""
        self._options = options
        if options.page_address is not None:
            tell_page(options.page_address, "its page")

    @property
    def address(self) -> Address | None:
        """Address of the page that may stay open after the run; None if the run has no page, or was stopped."""
        if self._options is None or self._options.stop.is_set():
            return None
        address = self._options.page_address
        return address if address is not None and SERVERS.has(address) else None


@contextmanager
def keep_page_open(*, as_json: bool) -> Iterator[RunOfPage]:
    """After the block, even after a failed run, waits for Ctrl-C if the page is served and there is a terminal.
    Otherwise does not wait, so that a script ends with its run."""
    page = RunOfPage()
    try:
        yield page
    finally:
        address = page.address
        if address is not None and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            with interrupts() as wait:
                tell_page(address, "the run has ended; its page stays there until Ctrl-C")
                wait()


@contextmanager
def interrupts() -> Iterator[Callable[[], object]]:
    """Yields a function that waits for Ctrl-C, including one since the block began."""
    pressed = SimpleQueue[None]()  # unlike an event, it may be used by a handler that interrupts its use
    before = signal.signal(signal.SIGINT, lambda *_: pressed.put(None))
    try:
        yield pressed.get
    finally:
        signal.signal(signal.SIGINT, before)


def tell_page(address: Address, words: str) -> None:
    """Prints the address of a page, on standard error."""
    say(err(), Text.assemble((f"http://{address}/", "bold cyan"), f"  {words}"))


# Command-line options that overlay a step's file, for example with its surroundings.


OverlayOption = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="FILE", help="A file laid over the step's; may be repeated."),
]
AssignmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=VALUE",
        help="A value laid over the step's; may be repeated. A text with special characters needs quotes of its own: "
        "--set 'trigger.time=\"11:05\"'.",
    ),
]
NoFileRules = Annotated[
    bool, typer.Option("--no-file-rules", help="Take rules from the path of Python's modules only, not from files.")
]


@dataclass(frozen=True)
class StepOptions:
    """The options of a step on the command line."""

    overlays: Sequence[Path] = ()
    assignments: Sequence[str] = ()
    file_rules: bool = True

    @classmethod
    def of(cls, overlays: list[Path] | None, assignments: list[str] | None, no_file_rules: bool) -> StepOptions:
        """Returns the options from the values of the command line."""
        return cls(tuple(overlays or ()), tuple(assignments or ()), not no_file_rules)

    def load(self, reference: str, further: FurtherChecks | None = None) -> StepConfig:
        """Returns the step of a file, overlaid with these options; ``further``: as in ``load_step``."""
        if not names_step_file(reference):
            raise ConfigError(
                f"{reference!r} is not a step",
                why="a step is a file that ends in .conf, .hocon, .yaml, .yml or .json",
                do="name such a file; for a topology in Python use windbolt describe",
            )

        def further_problems(config: StepConfig) -> Iterable[StepProblem]:
            return () if further is None else further(self._allowed(config))

        pairs = _parse_assignments(self.assignments)
        return self._allowed(load_step(reference, overlays=self.overlays, assignments=pairs, further=further_problems))

    def _allowed(self, config: StepConfig) -> StepConfig:
        return config if self.file_rules else config.without_file_rules()

    def refuse_for_topology(self, reference: str) -> None:
        """Raises ConfigError if there are options for a step although the reference names a topology in Python."""
        self._refuse(f"with {reference!r}", do="leave them out")

    def refuse_without_step(self) -> None:
        """Raises ConfigError if there are options for a step without a step's file."""
        self._refuse("without a step", do="name its file with --topology, or leave them out")

    def _refuse(self, where: str, do: str) -> None:
        if self.overlays or self.assignments or not self.file_rules:
            raise ConfigError(
                f"--with, --set or --no-file-rules {where}",
                why="these options are for steps, whose files end in .conf, .hocon, .yaml, .yml or .json",
                do=do,
            )


NO_OPTIONS = StepOptions()


def _parse_assignments(given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for assignment in given:
        key, sign, value = assignment.partition("=")
        if not sign or not key.strip():
            raise ConfigError(
                f"--set {assignment!r}", why="it takes a place and a value", do="write --set trigger.timeout=100"
            )
        pairs[key.strip()] = value
    return pairs


# Runs a topology interactively: progress, signals, and the end.


def load_reference(reference: str, options: StepOptions = NO_OPTIONS) -> Graph:
    """Returns a user's topology. Output of its file during loading is not a result, and goes to standard error."""
    with redirect_stdout(sys.stderr):
        if names_step_file(reference):
            from topologies.step.compile_step import step_problems, step_topology

            problems = partial(step_problems, load=True, complete=True)
            return step_topology(options.load(reference, problems))
        options.refuse_for_topology(reference)
        return load_topology(reference)


def end_at_sigterm_in_a_container() -> None:
    """Lets SIGTERM end this process as usual, until a run handles it. The kernel drops a signal without a handler for
    the first process of a container, which would then be killed after its grace period."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))


def run_watched(topology: Graph, runner: Runner, options: RunOptions, *, as_json: bool) -> Summary:
    """Runs with progress on standard output; a first Ctrl-C or SIGTERM ends the run after the current batch."""
    with progress_display(topology, as_json=as_json) as progress:

        def tell(coming: ComingRestart) -> None:
            progress.note(restart_in_words(coming), until_batch=True)

        observed_options = replace(options, on_report=progress.report, on_restart=tell)
        summary = _run_in_background(topology.name, runner, observed_options, progress)
        progress.end(summary)
    return summary


def restart_in_words(coming: ComingRestart) -> str:
    """Describes a coming restart, on one line."""
    why = coming.error.what if isinstance(coming.error, WindboltError) else error_text(coming.error)
    number = f"{coming.in_a_row} of at most {coming.most} without a batch"
    return printable(f"restarting in {coming.seconds:.1f} s ({number}): {why}")


def _run_in_background(name: str, runner: Runner, options: RunOptions, progress: ProgressDisplay) -> Summary:
    """Runs in another thread, so that signals reach this one at once, and Spark does not take them over."""
    with _stop_at_signals(options.stop, progress):
        run = Run(name, runner, options)
        while not run.end_within(0.2):
            progress.beat()
    return run.wait()


@contextmanager
def _stop_at_signals(stop: threading.Event, progress: ProgressDisplay) -> Iterator[None]:
    """Handles signals: the first asks the run to stop, the second ends the process with status 128 + its number."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            if os.isatty(1):
                os.write(1, b"\x1b[?25h\n")  # shows the cursor that the display has hidden
            os._exit(128 + number)
        stop.set()
        progress.note("finishing the batch, then stopping; once more (Ctrl-C) to force it")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ``windbolt describe``: the parts of a topology.


def describe(
    reference: Reference,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart in Mermaid's language.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    overlays: OverlayOption = None,
    assignments: AssignmentOption = None,
    no_file_rules: NoFileRules = False,
    debug: Debug = False,
) -> None:
    """Describe a topology: spouts, bolts and their windows, groupings, streams, sinks; or a step, in words."""
    from topologies.graph.describing import as_mermaid as flowchart
    from topologies.graph.describing import to_json, topology_text
    from topologies.step import describe_step as steps

    with readable_errors(debug=debug):
        if mermaid and as_json:
            raise ConfigError(
                "--mermaid and --json", why="the description is printed in one form", do="choose one of them"
            )
        options = StepOptions.of(overlays, assignments, no_file_rules)
        if names_step_file(reference):
            step = options.load(reference)
            text = steps.as_mermaid(step) if mermaid else steps.step_text(step)
            data = steps.to_json(step)
        else:
            topology = load_reference(reference, options)
            text = flowchart(topology) if mermaid else topology_text(topology)
            data = to_json(topology)
        if as_json or mermaid:
            typer.echo(json.dumps(data, indent=2) if as_json else text)
        else:
            say(out(), Text(text), whole_types=True)


# ``windbolt check``: can a topology or a step run, and what are all its problems?


def check(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="FILE:NAME",
            help="A topology: my_topology.py:topology, package.module:topology, or a step: step.conf.",
        ),
    ],
    overlays: OverlayOption = None,
    assignments: AssignmentOption = None,
    no_file_rules: NoFileRules = False,
    load: Annotated[
        bool,
        typer.Option(
            "--load", help="Of a step, load the rules too, as a run does: the top level of their files is run."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="A warning is an error, and so is what a step lacks for a run.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check a topology or a step, without running it.

    A topology: all that build() checks, the first rows of its sources, the folders of its sinks. A step: its file, its
    rules and their functions, schemas, times of day; of rules the text is looked at, and with --load their files are
    loaded.

    Exit status 0 if all is well, 1 if something is wrong.
    """
    options = StepOptions.of(overlays, assignments, no_file_rules)
    with readable_errors(debug=debug):
        try:
            if load and not names_step_file(reference):
                raise ConfigError(
                    f"--load with {reference!r}",
                    why="it is for the rules of steps",
                    do="leave it out, a topology is loaded",
                )
            is_ok = (
                _check_step(reference, options, load=load, strict=strict)
                if names_step_file(reference)
                else _check_topology(reference, options, strict)
            )
        except (StepConfigError, TopologyError) as error:
            if debug:
                raise
            step = names_step_file(reference)
            say(out(), Text(str(error).rstrip(".")) if step else in_words(error))
            raise typer.Exit(FAILED) from None
    if not is_ok:
        raise typer.Exit(FAILED)


def _check_step(reference: str, options: StepOptions, *, load: bool, strict: bool) -> bool:
    from topologies.step.compile_step import missing_sections, step_problems, step_topology
    from topologies.step.describe_step import summary

    with redirect_stdout(sys.stderr):  # prints of loading rules are no results
        config = options.load(reference, lambda config: step_problems(config, load=load))
        if not missing_sections(config):
            step_topology(config, load=load)
    say(out(), Text(summary(config)))
    return not (strict and missing_sections(config))


def _check_topology(reference: str, options: StepOptions, strict: bool) -> bool:
    from topologies.cli.displays import print_report

    return print_report(out(), load_reference(reference, options), strict=strict)


# ``windbolt run``: a topology, on Spark or in this process.


Reference = Annotated[
    str,
    typer.Argument(
        metavar="FILE:NAME", help="A topology: my_topology.py:topology, package.module:topology, or a step: step.conf."
    ),
]


def run(
    reference: Reference,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the state is kept; needed on Spark, and with --every.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Where to run it.")] = Engine.SPARK,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Run until stopped, a batch this often: 10s, 500ms.")
    ] = None,
    keep_open: Annotated[
        bool, typer.Option("--keep-open", help="Leave windows open at the end of the input, for the next run.")
    ] = False,
    first_output: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start with the output of this time, and read what that needs: ISO 8601."),
    ] = None,
    keep_batches: Annotated[
        int, typer.Option("--keep-batches", metavar="N", help="Number of last batches that one can go back to.")
    ] = KEPT_BATCHES,
    allow_rescale: Annotated[
        bool,
        typer.Option("--allow-rescale", help="Move the checkpoint's state where bolts have other numbers of tasks."),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Start again from the checkpoint after failures that may pass by themselves."),
    ] = False,
    restart_attempts: Annotated[
        int | None,
        typer.Option(
            "--restart-attempts",
            metavar="N",
            help=f"Number of restarts in a row without a batch done, after which it fails; {RESTARTS} if not given.",
        ),
    ] = None,
    restart_max_backoff: Annotated[
        str | None,
        typer.Option(
            "--restart-max-backoff",
            metavar="TIME",
            help="The longest pause before a restart, 1m if not given; the first is 1s, or this.",
        ),
    ] = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master, such as local[2].")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve metrics for Prometheus, and /health, at this port.",
        ),
    ] = None,
    otel: Annotated[
        bool, typer.Option("--otel", help="Metrics and traces to OpenTelemetry, as its variables OTEL_* say.")
    ] = False,
    ui: Annotated[
        str | None,
        typer.Option(
            "--ui",
            metavar="[[HOST:]PORT]",
            help=f"Show the run on a page, at port {PAGE_PORT} or this; on a terminal until Ctrl-C, after its end too.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with an error where no file matches, or no row has a declared column.")
    ] = False,
    overlays: OverlayOption = None,
    assignments: AssignmentOption = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per batch, and one for the run.")] = False,
    debug: Debug = False,
) -> None:
    """Run a topology to the end of the input that is there now, or until stopped (--every).

    Ctrl-C ends it after the batch in hand. A run on the same checkpoint continues where the last one stopped.
    """
    end_at_sigterm_in_a_container()
    with (
        survive_closed_output(),
        keep_page_open(as_json=as_json) as page,
        readable_errors(debug=debug, restart=restart),
    ):
        options = RunOptions(
            checkpoint,
            every,
            keep_open=keep_open,
            first_output=first_output,
            keep_batches=keep_batches,
            allow_rescale=allow_rescale,
            restart=_restart_rules(restart, restart_attempts, restart_max_backoff),
            serve_metrics=metrics,
            otel=otel,
            serve_page=ui,
        )
        settings = parse_conf(conf or [])
        for_spark = {"--master": master or None, "--conf": settings or None}
        check_engine(engine, options, for_spark, "--engine local")
        topology = load_reference(reference, StepOptions.of(overlays, assignments, no_file_rules))
        doubts = _warn_of_doubts(topology, strict=strict)
        page.begin(options)
        summary = run_watched(
            topology, runner(engine, topology, master=master, conf=settings), options, as_json=as_json
        )
        if not as_json:
            for name, (before, now) in summary.rescaled.items():
                say(out(), Text(f"{name}: its state was moved from {before} to {now} tasks"))
            for name, columns in summary.new_columns.items():
                say(out(), Text(f"{name}: {_new_columns_in_words(columns, summary.new_column_defaults.get(name, {}))}"))
            print_summary(out(), topology, summary, checkpoint)
        _warn_of_doubts(topology, strict=strict, already_told=doubts)


def _new_columns_in_words(columns: Sequence[str], defaults: Mapping[str, str]) -> str:
    """Describes the values of earlier events in the new columns of a bolt."""
    parts = [f"{defaults[column]} in {column}" for column in columns if column in defaults]
    nulls = [column for column in columns if column not in defaults]
    parts += [f"nulls in {', '.join(nulls)}"] if nulls else []
    return f"events from before have {' and '.join(parts)}, which {'is' if len(columns) == 1 else 'are'} new"


def _restart_rules(wanted: bool, attempts: int | None, max_backoff: str | None) -> Restart | None:
    """Returns the restart rules from the command line; None without restarts."""
    restart_options = {"--restart-attempts": attempts, "--restart-max-backoff": max_backoff}
    if not wanted:
        names = [name for name, value in restart_options.items() if value is not None]
        if names:
            raise ConfigError(
                f"{' and '.join(names)} without --restart",
                why="a run ends with its first failure unless it is told to start again",
                do="add --restart",
            )
        return None
    defaults = Restart()
    if max_backoff is None:
        return replace(defaults, attempts=defaults.attempts if attempts is None else attempts)
    longest = as_duration(max_backoff)
    initial = min(as_duration(defaults.initial_backoff), longest, key=lambda pause: pause.micros)
    return Restart(defaults.attempts if attempts is None else attempts, initial, longest)


def _warn_of_doubts(topology: Graph, *, strict: bool, already_told: Collection[str] = ()) -> list[str]:
    """Warns of input that is probably a mistake, and of bolts that wait for it; with ``strict`` these are errors.
    Returns the warnings. Called again after the run for new input: ``already_told`` has the earlier warnings."""
    waiting = (doubt for found in blocked_watermark_warnings(topology).values() for doubt in found.warnings)
    doubts = [doubt for doubt in (*suspicious_input(topology), *waiting) if str(doubt) not in already_told]
    if strict and doubts:
        raise doubts[0]
    for doubt in doubts:
        say(err(), in_words(doubt, "warning", "bold yellow"))
    return [*already_told, *map(str, doubts)]


def parse_conf(conf: Sequence[str]) -> dict[str, str]:
    """Returns settings of Spark from the command line."""
    settings = {}
    for option in conf:
        key, sign, value = option.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--conf {option!r}", why="a setting has a key and a value", do="write --conf key=value")
        settings[key.strip()] = value
    return settings
