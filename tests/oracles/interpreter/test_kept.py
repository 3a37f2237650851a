"""Cases in which windbolt or the interpreter was once wrong: they agree, with what the file says was found."""

from pathlib import Path

import pytest
import yaml

from tests.oracles.interpreter import graph_holding, holding

KEPT = sorted((Path(__file__).parent / "kept").glob("*.yaml"))
"""As ``Difference.shown`` and ``graph_holding.shown`` print them, and the variant of a single bolt."""


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_case_that_differed_is_answered_as_by_the_interpreter(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "bolts" in case:
        assert not graph_holding.differs(case)
    else:
        assert not holding.differs(case, case.pop("variant"))


def test_there_are_some() -> None:
    assert KEPT
