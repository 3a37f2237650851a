"""``python -m windbolt``: the command ``windbolt``."""

from topologies.cli.app import main

if __name__ == "__main__":
    main()
