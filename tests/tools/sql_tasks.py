"""Calling a tool as a worker does, with made-up surroundings."""

from __future__ import annotations

from noetl.testing.tool_conformance import outcome_of
from noetl.testing.tool_conformance import tool_context as context

__all__ = ["context", "outcome_of"]
