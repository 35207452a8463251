"""Property tests say the same thing on every machine: no database of earlier failures, no time limit per example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("core", database=None, deadline=None, max_examples=100)
settings.load_profile("core")
