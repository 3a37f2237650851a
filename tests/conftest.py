"""What many tests share: an object store, a port, and the profiles of Hypothesis.

The profiles say how many examples a property without ``@examples`` runs, and the others in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.helpers.s3 import S3

pytest.register_assert_rewrite("tests.helpers")  # a failed assert there shows its values too

settings.register_profile("windbolt", deadline=None)  # a busy machine is not a mistake of the code
settings.register_profile("quick", settings.get_profile("windbolt"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("windbolt"), max_examples=2_000)
settings.load_profile("windbolt")  # --hypothesis-profile takes another


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    """An object store on this machine, empty at the beginning of a file of tests."""
    from tests.helpers.s3 import s3_server

    with s3_server() as running:
        yield running


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine on which nothing listens."""
    from tests.helpers.scraping import free_port

    with free_port() as found:
        yield found
