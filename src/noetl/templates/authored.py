"""Authored: a value a playbook's author wrote, in which text with `{{ … }}` is a template.

Only what is wrapped in this type is ever rendered. Data (workload, results, messages) is never wrapped, so it
can never be taken for a template: the rule is structural (reliability.md §2.1).
"""

from __future__ import annotations

from typing import Any

import msgspec


class Authored(msgspec.Struct, frozen=True, eq=True):
    """`data` is plain JSON data; `render` (templates.render) gives its value in a scope."""

    data: Any = None

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self.data))
