"""What all tests have in common."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("windbolt", deadline=None)  # a busy machine is no mistake of the code
settings.load_profile("windbolt")
