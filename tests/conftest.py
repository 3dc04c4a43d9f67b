"""What all tests share. A change is judged by its own merits: examples that are made at random are the same in every
`make test`. `make test-deep` looks for new ones.

A test of real processes in real time that fails is tried once more, and the report says so (docs/decisions/0007). A
test of anything else fails for a reason, as does every test of a deep run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

HERE = Path(__file__).parent
IS_DEEP = "NOETL_DEEP" in os.environ
WITH_PROCESSES = frozenset(
    [
        "browser",
        "cli",
        "client",
        "cluster",
        "contracts",
        "dispatch",
        "docs",
        "embedded",
        "everywhere",
        "examples",
        "faults",
        "keychain",
        "orchestrator",
        "results",
        "server",
        "store",
        "testing",
        "tools",
        "upgrade",
        "worker",
    ]
)

settings.register_profile("same each time", derandomize=True, deadline=None)
if not IS_DEEP:
    settings.load_profile("same each time")
    # Hypothesis also tries words that stand in our modules, of those that are loaded by then, and that is chance.
    providers.is_local_module_file = lambda path: False


def is_tried_again(test: Path) -> bool:
    """Whether a failure may be the machine's: it was too slow, or stopped us between two moments."""
    return not IS_DEEP and test.relative_to(HERE).parts[0] in WITH_PROCESSES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    once_more = pytest.mark.flaky(reruns=1)
    for item in items:
        if is_tried_again(item.path):
            item.add_marker(once_more)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why each first try failed: that is where looking for the fault begins."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
