"""The profiles of Hypothesis: how many examples a property without ``@examples`` runs, and the others in proportion."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.helpers")  # a failed assert there shows its values too

settings.register_profile("windbolt", deadline=None)  # a busy machine is not a mistake of the code
settings.register_profile("quick", settings.get_profile("windbolt"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("windbolt"), max_examples=2_000)
settings.load_profile("windbolt")  # --hypothesis-profile takes another
