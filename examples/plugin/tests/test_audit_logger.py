"""The tool alone: a context made by hand is all it needs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from noetl_audit_logger import AuditLogger

from noetl.testing.tool_conformance import tool_context
from noetl.tools.plugin import ToolError


def run(folder: Path, inputs: dict[str, Any], key: str = "run-1") -> Any:
    context = tool_context(key=key, data_folders=(str(folder),))
    return asyncio.run(AuditLogger().run(inputs, context)).result


def test_records_are_lines_of_the_file(tmp_path: Path) -> None:
    first = run(tmp_path, {"message": "it began", "data": {"n": 1}}, "run-1")
    second = run(tmp_path, {"message": "it ended", "level": "error"}, "run-2")

    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(each["level"], each["message"]) for each in records] == [("info", "it began"), ("error", "it ended")]
    assert (first["line"], second["line"]) == (1, 2)


def test_a_repeated_attempt_writes_nothing_new(tmp_path: Path) -> None:
    assert run(tmp_path, {"message": "x"}) == run(tmp_path, {"message": "x"})
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("inputs", [{"message": "x", "level": "loud"}, {"message": "x", "file": "../audit.jsonl"}])
def test_what_is_not_allowed_is_refused(tmp_path: Path, inputs: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        run(tmp_path, inputs)

    assert caught.value.kind == "audit.input"
