"""Versions: events that last until the next one of their key begins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manager.keyed.held import Held
from topologies.graph.key_codes import KeyCodes
from windowing.time.timestamps import FOREVER


def end_versions(old: Held | None, new: Held, versions: int, codes: KeyCodes) -> Held:
    """The events of a task; each version ends as the next one of its key begins, if it does not end before.

    Of versions that begin at the same time the last to arrive counts. It does not matter where batches end: what is
    admitted is not from before the watermark, up to which versions have met their partners.
    """
    events = new if old is None else Held.concat([old, new])
    assert events.streams is not None
    of_keys = codes.apply(events).keys
    assert of_keys is not None
    assert events.ends is not None
    rows = np.flatnonzero(events.streams == versions)
    rows = rows[np.lexsort((events.times[rows], of_keys[rows]))]
    keys, following = of_keys[rows], np.full(len(rows), FOREVER)
    following[:-1] = np.where(keys[1:] == keys[:-1], events.times[rows[1:]], FOREVER)
    ends = events.ends.copy()
    ends[rows] = np.minimum(ends[rows], following)
    return replace(events, ends=ends)
