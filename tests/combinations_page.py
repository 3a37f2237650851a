"""Writes docs/combinations.md: which settings of a windowed bolt go together, from the drawn cases of the interpreter.

python -m tests.combinations_page
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

from tests.helpers import pages
from tests.helpers.places import ROOT
from tests.oracles.interpreter.cases import VALUES
from tests.oracles.interpreter.holding import FIXED, Drawn, case, numbers_of

PAGE = ROOT / "docs" / "combinations.md"
COMMAND = "python -m tests.combinations_page"
SEED = 31
"""That of the cases that the tests play."""

HEAD = f"""# Which settings go together

For looking up whether two settings of a windowed bolt can be combined. Every pair is *held*, or *refused* by `build()`
with its reason. Held means: bolts with both settings, other settings beside them, and awkward streams were drawn at
random, and windbolt answers each of them as a slow interpreter of [the rules](semantics.md) does
([decision 97](decisions/0097-an-executable-specification.md)), in one go, with crashes, rescaled, and going back.
Written by `{COMMAND}` from {FIXED:,} drawings, most of which the tests play. Settings have their names of
[scenario files](scenarios.md); [settings.md](settings.md) has their calls."""

HELD = """## What is held

Behind each setting, the number of these bolts that have both. A pair that is not here is refused."""

REFUSED = """## What is refused

The reason is the one for the values that were drawn last. Some pairs are refused with some values and held with
others: these are in the table above."""

Pair = tuple[str, str]


def page(drawn: Iterable[Drawn]) -> str:
    """The text of docs/combinations.md."""
    held, refused = table(drawn)
    names = sorted(VALUES)
    rows = list[tuple[str, ...]]()
    for name in names:
        beside = [(other, held[pair(name, other)]) for other in names if other != name and held[pair(name, other)]]
        rows.append((f"`{name}`", str(held[name, name]), ", ".join(f"`{other}` {number}" for other, number in beside)))
    reasons: dict[str, list[Pair]] = {}
    for two, reason in refused.items():
        reasons.setdefault(reason, []).append(two)
    why: list[tuple[str, ...]] = [
        ("; ".join(f"`{one}` and `{other}`" for one, other in sorted(pairs)), reason.replace("|", "\\|"))
        for reason, pairs in sorted(reasons.items(), key=lambda each: (-len(each[1]), each[0]))
    ]
    parts = [
        HEAD,
        HELD,
        pages.table(("setting", "bolts", "together with"), rows),
        REFUSED,
        pages.table(("settings", "why"), why),
    ]
    return "\n\n".join(parts) + "\n"


def table(drawn: Iterable[Drawn]) -> tuple[Counter[Pair], dict[Pair, str]]:
    """How many bolts have both settings; and of the pairs that none has, why ``build()`` refuses them.

    A setting by itself is a pair with itself.
    """
    held, reasons = Counter[Pair](), dict[Pair, str]()
    for each in drawn:
        held.update(itertools.combinations(each.settings, 2))
        held.update((name, name) for name in each.settings)
        if each.made is None and len(each.names) > 1:
            one, other = each.names
            reasons[pair(one, other)] = said(each.reason)
    return held, {two: reason for two, reason in reasons.items() if not held[two]}


def pair(one: str, other: str) -> Pair:
    return min(one, other), max(one, other)


def said(problem: str) -> str:
    """The reason of a refusal, without the name of the bolt."""
    return re.sub(r"^(\d+\. )?(bolt 'bolt':?|bolt:) *(reads '[^']*': )?", "", problem).replace("**", "")


def drawn() -> list[Drawn]:
    """The fixed drawing: each pair of settings twice, and groups of settings."""
    return [case(number, SEED) for number in range(FIXED)]


def of_pair(place: int) -> list[Drawn]:
    """What was drawn for one of the pairs."""
    return [case(number, SEED) for number in numbers_of(place)]


def main() -> None:
    """Write the page."""
    every = drawn()
    pages.write(PAGE, page(every), f"{sum(each.made is not None for each in every)} bolts are held")


if __name__ == "__main__":
    main()
