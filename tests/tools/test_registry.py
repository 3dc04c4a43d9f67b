"""The registry: kinds are imported when needed, and what is missing is said (TOOL-01)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from noetl.base.errors import ToolError
from noetl.tools.internal import NoopTool
from noetl.tools.registry import Registry
from tests.playbook_runs import Scripted


def test_a_kind_has_one_tool_for_the_lifetime_of_the_worker() -> None:
    registry = Registry()

    assert isinstance(registry.tool("noop"), NoopTool)
    assert registry.tool("noop") is registry.tool("noop")


def test_an_unknown_kind_is_reported_with_the_known_ones() -> None:
    registry = Registry()

    assert not registry.runs("telepathy")
    with pytest.raises(ToolError, match=r'kind "telepathy"; this worker runs .*python') as caught:
        registry.tool("telepathy")
    assert caught.value.kind == "tool.unknown_kind"


def test_a_kind_whose_packages_are_missing_names_its_extra() -> None:
    registry = Registry({"ftp": "no_such_package:Tool"}, extras={"ftp": "ftp"})

    with pytest.raises(ToolError, match=r'tool kind "ftp" needs an extra: pip install "noetl-engine\[ftp\]"'):
        registry.tool("ftp")


def test_an_embedder_can_register_its_own_tool() -> None:
    tool = Scripted()

    assert Registry({"mine": tool}).tool("mine") is tool


def test_the_registry_imports_no_tool_before_it_is_used() -> None:
    code = (
        "import sys; from noetl.tools.registry import Registry; Registry().runs('python');"
        "print([m for m in sys.modules if m.startswith('noetl.tools.python')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
