"""Strict reading of JSON and YAML, as in all files of windbolt."""

from __future__ import annotations

import re
from collections.abc import Hashable
from decimal import Decimal
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

_DOUBLE_DIGITS = 17
"""Number of significant digits that identify any double; further ones must be exact, or precision is lost."""
_LONGEST_SHOWN = 40


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of these pairs. Raises ValueError for a repeated key."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} twice in one mapping")
    return mapping


def no_constant(name: str) -> None:
    """Raise ValueError for NaN and the infinities, which Python's reader would accept."""
    raise ValueError(f"{name}, which is not a number of JSON")


def exact_float(text: str) -> float:
    """The double that a number with a fraction or exponent denotes. Raises ValueError where digits would be lost.

    Up to 17 digits may be those of the rounded double (0.1, 0.10000000000000001); more must be exact.
    """
    value = float(text)
    digits = text.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    if not digits:
        return value
    if value not in (0.0, float("inf"), float("-inf")):
        if len(digits) <= 15 and abs(value) > 1e-300:
            return value  # a double has that many digits
        stated = Decimal(text)
        if len(digits) <= _DOUBLE_DIGITS and Decimal(f"{value:.{len(digits) - 1}e}") == stated:
            return value
        # Where the double is halfway between two spellings, the shortest one may be the other of the two (2 ** -24).
        if stated in (Decimal(value), Decimal(repr(value))):
            return value
    spelled = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    raise ValueError(
        f"the number {spelled} cannot be kept as it is: a double would make it {value!r}; send it as a text"
    )


class _Values(SafeConstructor, Resolver):
    """JSON's types, with the scalars of YAML 1.2.

    YAML 1.1 would read ``6:00:03`` as 21603 and ``no`` as false, and would lose digits of times.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in known:
                    problem = f"the key {key.value!r} twice in one mapping"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                known.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Values.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Values.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF"))
_Values.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)$|0x[0-9a-fA-F]+$"), list("-+0123456789")
)
_Values.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)
_Values.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<$"), ["<"])


class Yaml(_Values, yaml.SafeLoader):
    """Reads YAML with the values of ``_Values``; its errors say most of all readers."""


try:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]
except ImportError:  # PyYAML was built without libyaml
    FastYaml: Any = Yaml
else:

    class FastYaml(Composer, CParser, _Values):  # type: ignore[no-redef]
        """The same, five times as fast, by libyaml; its nodes are made in Python, which has a limit of recursion."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            _Values.__init__(self)
