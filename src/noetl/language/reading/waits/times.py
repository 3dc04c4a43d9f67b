"""Times as people write them in a document: lengths and moments, written out or as templates (TMR-03, HUM-04).

A template's value is only known when the step runs, so what is checked here is what is written out.
"""

from __future__ import annotations

from datetime import datetime

from noetl.base.durations import FORMS, seconds
from noetl.base.source import is_template
from noetl.language.reading.nodes import Node, Scalar, describe
from noetl.language.reading.shared_checks import ReadContext, opening

_MOMENT_FORM = "write it as 2025-01-31T06:00:00Z, with its offset"


def duration(reading: ReadContext, node: Node | None, what: str, code: str = "E_DURATION") -> Node | None:
    """`node` if it is a length of time or a template; anything else is noted."""
    if node is None or _is_templated(node):
        return node
    if isinstance(node, Scalar):
        try:
            seconds(node.value)
            return node
        except ValueError:
            pass
    reading.error(code, opening(node), f"{what} must be a duration, and this is {_found_text(node)}", FORMS)
    return None


def moment(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment (RFC 3339) or a template; anything else is noted."""
    if node is None or _is_templated(node) or is_moment(node):
        return node
    reading.error("E_DURATION", opening(node), f"{what} must be a time, and this is {_found_text(node)}", _MOMENT_FORM)
    return None


def duration_or_moment(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment, a length of time or a template."""
    return node if node is not None and is_moment(node) else duration(reading, node, what)


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


def _found_text(node: Node) -> str:
    return f'"{node.value}"' if isinstance(node, Scalar) and isinstance(node.value, str) else describe(node)
