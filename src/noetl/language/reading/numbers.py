"""Numbers, timeouts and words as options write them: a literal that is checked here, or a template that is not.

What a template gives is known at run time only; a literal that cannot be meant is noted before that.
"""

from __future__ import annotations

from datetime import datetime

from noetl.base.durations import FORMS, seconds
from noetl.base.source import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.shared_checks import ReadContext, opening


def is_templated(node: Node | None) -> bool:
    """Whether a node is text with a template in it, so that its value is only known at run time."""
    return isinstance(node, Scalar) and isinstance(node.value, str) and is_template(node.value)


def found_text(node: Node) -> str:
    """A found value for a message: the text itself when it is short, else what it is."""
    if isinstance(node, Scalar) and node.value is not None and len(str(node.value)) <= 40:
        return str(node.value).lower() if isinstance(node.value, bool) else f'"{node.value}"'
    return describe(node)


def timeout(reading: ReadContext, node: Node | None, what: str) -> None:
    """A task timeout: one duration, or one each for {connect, read} and the like (SPEC-05)."""
    if isinstance(node, Mapping):
        for key, _, value in node.items():
            duration(reading, value, f"{what}.{key}")
    else:
        duration(reading, node, what)


def count(reading: ReadContext, node: Node | None, code: str, what: str, least: int = 1, hint: str = "") -> Node | None:
    """A whole number of at least `least`, or a template giving one."""
    if node is None or is_templated(node):
        return node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return node
    reading.error(
        code, node, f"{what} must be a whole number of at least {least}, and this is {found_text(node)}", hint
    )
    return None


def fixed_count(reading: ReadContext, node: Node | None, code: str, what: str) -> None:
    """A whole number of at least 1, and no template: it is read where there is nothing to render one with."""
    if node is not None and is_templated(node):
        reading.error(code, node, f"{what} must be a whole number of at least 1, and this is a template")
    else:
        count(reading, node, code, what)


def whole_number(reading: ReadContext, node: Node | None, code: str, what: str) -> Node | None:
    """Any whole number, or a template giving one."""
    if node is None or is_templated(node):
        return node
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node
    reading.error(code, node, f"{what} must be a whole number, and this is {found_text(node)}")
    return None


def plain_text(reading: ReadContext, node: Node | None, code: str, what: str) -> str | None:
    """Words for people (desc, version): any scalar, as text; null and absence are nothing."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if isinstance(node, Scalar):
        return str(node.value)
    reading.error(code, node, f"{what} must be text, and this is {describe(node)}")
    return None


# Times as people write them in a document: lengths and moments, written out or as templates (TMR-03, HUM-04).

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
