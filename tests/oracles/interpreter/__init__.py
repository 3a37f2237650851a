"""One slow, plain interpreter of all rules of windows and time: the executable specification (docs/semantics.md).

Where the sections of that page are: "Bounds", "Alignment" and "The first window" in ``kinds``; "Closing" and "Ties" in
``bolt.Bolt.over`` and ``emit``, and ``panes``; "The watermark", "Partitions" and "Idleness" in ``times``; "Lateness" in
``bolt.Bolt.judge``, and ``takes`` of each kind; "Which time" in ``bolt.resolved`` and ``receive``; "Behind other
windowed bolts" in ``topology``; "Windows that a trigger fires" in ``own``. What bolts make of windows is in ``rows``,
``ready`` and ``plain``.

``cases``, ``topology_cases`` and ``own_drawn`` draw; ``written`` is a case as a user would write it, and ``driving``
runs that; ``holding`` compares, ``states`` what a checkpoint tells after each batch.
"""
