"""Truth of a guard's value (TPL-08)."""

from __future__ import annotations

from typing import Any

_FALSE_TEXTS = frozenset({"", "false", "0", "no", "none", "null"})
_LONGEST_FALSE = max(map(len, _FALSE_TEXTS))


def truth(value: Any) -> bool:
    """Booleans as they are, numbers non-zero, collections non-empty, text unless it says no."""
    if isinstance(value, str):
        said = value.strip()  # folding case never makes a text shorter
        return len(said) > _LONGEST_FALSE or said.casefold() not in _FALSE_TEXTS
    return bool(value)
