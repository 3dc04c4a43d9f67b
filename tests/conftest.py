"""What all tests share. A change is judged by its own merits: examples that are made at random are the same in every
`make test`. `make test-deep` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same each time", derandomize=True, deadline=None)
if "NOETL_DEEP" not in os.environ:
    settings.load_profile("same each time")
