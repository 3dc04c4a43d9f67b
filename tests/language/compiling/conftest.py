"""Fixtures that compile playbooks: common to the compiler's tests."""

from __future__ import annotations

import pytest

from noetl.language.reading.playbook import Dialect
from noetl.net.kinds import Kinds
from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import Compile, Outcome, compiled_text, document


@pytest.fixture
def compiled() -> Compile:
    """Compiles a workflow: `compiled(steps, root=…, api=…, strict=…, extensions=…, kinds=…)`."""

    def run(
        workflow: str,
        *,
        root: str = "",
        api: str = "noetl.io/v10",
        dialect: Dialect | None = None,
        kinds: Kinds = KINDS,
        strict: bool = False,
        extensions: bool = False,
    ) -> Outcome:
        text = document(workflow, root, api, dialect)
        return compiled_text(text, kinds=kinds, strict=strict, extensions=extensions)

    return run


@pytest.fixture
def compiled_document() -> Compile:
    """Compiles a complete text."""
    return compiled_text
