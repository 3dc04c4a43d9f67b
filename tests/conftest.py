"""Fixtures for all tests. A change is judged by its own merits: examples that are made at random are the same in every
`make test`. `make test-deep` looks for new ones.

A test that fails is not tried again (docs/decisions/0009): it waits for what it needs, and never for a time.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.detection import is_hypothesis_test

from tests import processor_time
from tests.servers import at_end
from tests.volume import IS_DEEP

FEWEST_EXAMPLES = 20

# Python's collector looks at all objects again and again, and those of sixteen thousand tests stay: a sixth of the
# tests' processor time went there. Leaked objects are still found, a little later.
gc.set_threshold(20_000, 20, 50)
# httpx asks for this package with every request to an app in the same process, and where it is not installed each
# question looks through all folders of packages.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # this is how Python is told that there is none

settings.register_profile("same each time", derandomize=True, deadline=None)
if not IS_DEEP:
    settings.load_profile("same each time")
    # Hypothesis also tries words that stand in our modules, of those that are loaded by then, and that is chance.
    vars(providers)["is_local_module_file"] = lambda path: False


def pytest_configure(config: pytest.Config) -> None:
    # With -n the processes that run the tests measure them: the one that hands them out would count all of it again.
    is_controller = bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
    if (file := os.environ.get(processor_time.FILE)) and not is_controller:
        config.pluginmanager.register(processor_time.Meter(file))


@pytest.hookimpl(trylast=True)  # after the fixtures of the session
def pytest_sessionfinish() -> None:
    at_end.stop_all()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test names the examples it needs to find new mistakes; a third of them keeps known ones away."""
    functions = {item.function for item in items if isinstance(item, pytest.Function)}
    for function in functions if not IS_DEEP else ():
        if is_hypothesis_test(function):
            named = function._hypothesis_internal_use_settings
            fewer = min(named.max_examples, max(FEWEST_EXAMPLES, named.max_examples // 3))
            function._hypothesis_internal_use_settings = settings(named, max_examples=fewer)
