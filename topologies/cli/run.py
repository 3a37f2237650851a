"""``windbolt run``: a topology, on Spark or in this process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from manager.storage.checkpoint import KEPT_BATCHES
from topologies.background.start import runner
from topologies.cli.running import end_at_sigterm_in_a_container, loaded, run_watched
from topologies.cli.staying import staying
from topologies.cli.step_options import NoFileRules, Set, StepOptions, With
from topologies.cli.terminal.consoles import err, out, outliving_readers, say
from topologies.cli.terminal.failing import Debug, in_words, readable_errors
from topologies.cli.terminal.summary_display import print_summary
from topologies.preflight.look_at_spouts import dubious_input
from topologies.preflight.waiting_watermarks import find_waiting
from topologies.run.address import PAGE_PORT
from topologies.run.engine import Engine, check_engine
from topologies.run.options import RunOptions
from topologies.run.restart import RESTARTS, Restart
from topologies.topology import Topology
from windowing.errors import ConfigError
from windowing.time.durations import as_duration

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
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per batch, and one for the run.")] = False,
    debug: Debug = False,
) -> None:
    """Run a topology to the end of the input that is there now, or until stopped (--every).

    Ctrl-C ends it after the batch in hand. A run on the same checkpoint continues where the last one stopped.
    """
    end_at_sigterm_in_a_container()
    with outliving_readers(), staying(as_json=as_json) as page, readable_errors(debug=debug, restart=restart):
        options = RunOptions(
            checkpoint,
            every,
            keep_open=keep_open,
            first_output=first_output,
            keep_batches=keep_batches,
            allow_rescale=allow_rescale,
            restart=_restart(restart, restart_attempts, restart_max_backoff),
            serve_metrics=metrics,
            otel=otel,
            serve_page=ui,
        )
        settings = settings_of(conf or [])
        for_spark = {"--master": master or None, "--conf": settings or None}
        check_engine(engine, options, for_spark, "--engine local")
        topology = loaded(reference, StepOptions.of(overlays, assignments, no_file_rules))
        doubts = _tell_doubts(topology, strict=strict)
        page.of(options)
        summary = run_watched(
            topology, runner(engine, topology, master=master, conf=settings), options, as_json=as_json
        )
        if not as_json:
            for name, (before, now) in summary.rescaled.items():
                say(out(), Text(f"{name}: its state was moved from {before} to {now} tasks"))
            for name, columns in summary.new_columns.items():
                say(out(), Text(f"{name}: {_new_columns_in_words(columns, summary.new_column_defaults.get(name, {}))}"))
            print_summary(out(), topology, summary, checkpoint)
        _tell_doubts(topology, strict=strict, told=doubts)


def _new_columns_in_words(columns: Sequence[str], defaults: Mapping[str, str]) -> str:
    """What the events of before have in the new columns of a bolt."""
    parts = [f"{defaults[column]} in {column}" for column in columns if column in defaults]
    nulls = [column for column in columns if column not in defaults]
    parts += [f"nulls in {', '.join(nulls)}"] if nulls else []
    return f"events from before have {' and '.join(parts)}, which {'is' if len(columns) == 1 else 'are'} new"


def _restart(wanted: bool, attempts: int | None, max_backoff: str | None) -> Restart | None:
    """The restarts that the command line asks for; None for none."""
    given = {"--restart-attempts": attempts, "--restart-max-backoff": max_backoff}
    if not wanted:
        names = [name for name, value in given.items() if value is not None]
        if names:
            raise ConfigError(
                f"{' and '.join(names)} without --restart",
                why="a run ends with its first failure unless it is told to start again",
                do="add --restart",
            )
        return None
    first = Restart()
    if max_backoff is None:
        return replace(first, attempts=first.attempts if attempts is None else attempts)
    longest = as_duration(max_backoff)
    initial = min(as_duration(first.initial_backoff), longest, key=lambda pause: pause.micros)
    return Restart(first.attempts if attempts is None else attempts, initial, longest)


def _tell_doubts(topology: Topology, *, strict: bool, told: Collection[str] = ()) -> list[str]:
    """Warn of input that is probably not meant so, and of bolts that wait for it; with ``strict`` such is an error.

    Returns what was told. Input that came during the run is looked at after it: ``told`` is what was told before.
    """
    waiting = (doubt for found in find_waiting(topology).values() for doubt in found.warnings)
    doubts = [doubt for doubt in (*dubious_input(topology), *waiting) if str(doubt) not in told]
    if strict and doubts:
        raise doubts[0]
    for doubt in doubts:
        say(err(), in_words(doubt, "warning", "bold yellow"))
    return [*told, *map(str, doubts)]


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """Settings of Spark as the command line gives them."""
    settings = {}
    for given in conf:
        key, sign, value = given.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--conf {given!r}", why="a setting has a key and a value", do="write --conf key=value")
        settings[key.strip()] = value
    return settings
