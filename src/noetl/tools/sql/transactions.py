"""Transactions that SQL keeps itself: then the tool begins none of its own."""

from __future__ import annotations

import re

from noetl.templates.sql.statements import Bound

_CONTROL = re.compile(
    r"\s*(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b))\b",
    re.IGNORECASE,
)


def keeps_transactions(bound: Bound) -> bool:
    """Whether the SQL begins or ends transactions itself."""
    return any(_CONTROL.match(statement.text) for statement in bound.statements)
