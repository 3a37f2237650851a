"""``python -m windbolt``: the command ``windbolt``."""

INTERRUPTED = 130
"""Exit status of Ctrl-C, as in shells."""


def main() -> None:
    """Runs the command; called by the ``windbolt`` script. Ctrl-C while it is loading ends it without a traceback."""
    try:
        from topologies.cli.app import main as command
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    command()


if __name__ == "__main__":
    main()
