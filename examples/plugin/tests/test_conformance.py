"""What a worker expects of every tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl_audit_logger import AuditLogger

from noetl.testing.tool_conformance import ToolConformance


class TestAuditLogger(ToolConformance):
    tool = AuditLogger

    def working(self, folder: Path) -> dict[str, Any]:
        return {"message": "it began", "data": {"n": 1}}

    def wrong(self) -> list[dict[str, Any]]:
        return [{"message": "x", "level": "loud"}, {"message": "x", "file": "../audit.jsonl"}]
