"""Times in wait blocks: lengths and moments, as text or as templates (TMR-03).

A template's value is only known when the step runs, so what is checked here is what is written out.
"""

from __future__ import annotations

from datetime import datetime

from noetl.document.nodes import Node, Scalar, describe
from noetl.document.shapes import Reading
from noetl.durations import FORMS, seconds
from noetl.source import is_template

MOMENT_FORM = "write it as 2025-01-31T06:00:00Z, with its offset"


def duration(reading: Reading, node: Node | None, what: str, code: str = "E_DURATION") -> Node | None:
    """`node` if it is a length of time or a template; anything else is noted."""
    if node is None or _is_templated(node):
        return node
    if not isinstance(node, Scalar):
        reading.error(code, node, f"{what} must be a duration, and this is {describe(node)}", FORMS)
        return None
    try:
        seconds(node.value)
    except ValueError:
        reading.error(code, node, f'{what} must be a duration, and this is "{_shown(node)}"', FORMS)
        return None
    return node


def moment(reading: Reading, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment (RFC 3339) or a template; anything else is noted."""
    if node is None or _is_templated(node) or is_moment(node):
        return node
    found = f'"{_shown(node)}"' if isinstance(node, Scalar) else describe(node)
    reading.error("E_DURATION", node, f"{what} must be a time, and this is {found}", MOMENT_FORM)
    return None


def duration_or_moment(reading: Reading, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment, a length of time or a template (HUM-04's due_date)."""
    if node is not None and is_moment(node):
        return node
    return duration(reading, node, what)


def is_moment(node: Node) -> bool:
    """Whether this is a time with a date and an offset: one without an offset would mean another moment elsewhere."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or len(node.value) < len("2025-01-01T00:00Z"):
        return False
    try:
        return datetime.fromisoformat(node.value).tzinfo is not None
    except ValueError:
        return False


def _is_templated(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and is_template(node.value)


def _shown(node: Scalar) -> str:
    return "null" if node.value is None else str(node.value)
