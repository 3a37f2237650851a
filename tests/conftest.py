"""The profiles of Hypothesis: how many examples a property without ``@examples`` runs, and the others in proportion."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("windbolt", deadline=None)  # a busy machine is no mistake of the code
settings.register_profile("quick", settings.get_profile("windbolt"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("windbolt"), max_examples=2_000)
settings.load_profile("windbolt")  # --hypothesis-profile takes another
