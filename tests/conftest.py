"""What all tests share. A change is judged by its own merits: examples that are made at random are the same in every
`make test`. `make test-deep` looks for new ones.

A test that fails is not tried again (docs/decisions/0009): it waits for what it needs, and never for a time.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings
from hypothesis.internal.conjecture import providers

HERE = Path(__file__).parent
IS_DEEP = "NOETL_DEEP" in os.environ

settings.register_profile("same each time", derandomize=True, deadline=None)
if not IS_DEEP:
    settings.load_profile("same each time")
    # Hypothesis also tries words that stand in our modules, of those that are loaded by then, and that is chance.
    vars(providers)["is_local_module_file"] = lambda path: False
