"""Queries of the engine, the worker and the control plane about a step of v2-case, independent of the execution."""

from noetl.engine.v2_case.names import boundary_names, collects_of, input_names, next_task, with_names
from noetl.engine.v2_case.parts import CALL, has_rules
from noetl.engine.v2_case.rules import outside_rules

__all__ = [
    "CALL",
    "boundary_names",
    "collects_of",
    "has_rules",
    "input_names",
    "next_task",
    "outside_rules",
    "with_names",
]
