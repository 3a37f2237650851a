"""``python -m windbolt``: the command ``windbolt``."""

INTERRUPTED = 130
"""Exit status: Ctrl-C, as shells have it."""


def main() -> None:
    """Run the command; called by the ``windbolt`` script. Ctrl-C while it is loaded ends it without a traceback."""
    try:
        from topologies.cli.app import main as command
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    command()


if __name__ == "__main__":
    main()
