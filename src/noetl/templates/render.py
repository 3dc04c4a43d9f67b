"""Rendering: authored data to plain data in a scope, and guards to true or false (TPL-01, TPL-08).

Only what the author wrote is rendered, and only once: a rendered value is never looked through for templates again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError
from noetl.templates.budget import Evaluation
from noetl.templates.expression import Template, TemplateNames, parse
from noetl.templates.logic import truth
from noetl.templates.values import Authored, clipped

__all__ = ["holds", "render", "render_collection", "render_within", "truth"]

MAX_DEPTH = 100
_PARSING_STEPS = 50  # the cost of reading a short template, in steps of its budget

ScopeLike = TemplateNames | Mapping[str, Any]


def render(
    authored: Any, scope: ScopeLike, *, now: float | None = None, keys: bool = False, marks: bool = False
) -> Any:
    """The value of authored data: text with templates is evaluated, mappings and lists are walked, the rest stays.

    Keys are rendered with `keys` only (`set_ctx`, `set_iter` and their kin); `marks` keeps SQL marks on text.
    """
    data = authored.data if isinstance(authored, Authored) else authored
    return _Rendering(scope, now, keys, marks).render(data, 0)


def render_collection(authored: Authored, scope: ScopeLike, *, now: float | None = None) -> Any:
    """The items of a loop: the rows or the body if the template names only a result, else the value of `render`."""
    data = authored.data
    if isinstance(data, str) and is_template(data):
        return parse(data).evaluate(scope, now, as_list=True)
    return render(authored, scope, now=now)


def render_within(max_steps: int, authored: Any, scope: ScopeLike, *, now: float | None = None) -> Any:
    """The value of authored data, all of its templates together within one budget of `max_steps`."""
    return _SharedBudget(scope, now, max_steps).render(authored, 0)


class _Rendering:
    __slots__ = ("_keys", "_marks", "_now", "_scope")

    def __init__(self, scope: ScopeLike, now: float | None, keys: bool, marks: bool) -> None:
        self._scope = scope
        self._now = now
        self._keys = keys
        self._marks = marks

    def render(self, data: Any, depth: int) -> Any:
        if isinstance(data, str):
            return self._text(data)
        # Checked for containers only: a text ends the recursion.
        if depth > MAX_DEPTH:
            raise TemplateError(f"the value is nested more than {MAX_DEPTH} deep")
        if isinstance(data, dict):
            return {self._key(key): self.render(value, depth + 1) for key, value in data.items()}
        if isinstance(data, list):
            return [self.render(item, depth + 1) for item in data]
        return data

    def _text(self, text: str) -> Any:
        if not is_template(text):
            return text
        return parse(text).evaluate(self._scope, self._now, marks=self._marks)

    def _key(self, key: str) -> str:
        if not self._keys or not isinstance(key, str) or not is_template(key):
            return key
        value = parse(key).evaluate(self._scope, self._now)
        if value is None or isinstance(value, dict | list):
            raise TemplateError(f'the key "{clipped(key)}" does not give a name')
        return str(value)


class _SharedBudget(_Rendering):
    __slots__ = ("_left",)

    def __init__(self, scope: ScopeLike, now: float | None, max_steps: int) -> None:
        super().__init__(scope, now, keys=False, marks=False)
        self._left = max_steps

    def _text(self, text: str) -> Any:
        lookup = self._scope.__getitem__ if isinstance(self._scope, Mapping) else self._scope.lookup
        run = Evaluation(lookup, now=self._now, max_steps=self._left)
        # Parsing is paid for too: the texts come from a caller, and each may be new to the cache.
        run.spend(_PARSING_STEPS + len(text))
        try:
            return parse(text).evaluate_in(run) if is_template(text) else text
        finally:
            # Also when it failed: a list of failing templates shares the budget like any other.
            self._left -= run.spent


def holds(guard: Authored, scope: ScopeLike, *, now: float | None = None, strict: bool = False) -> bool:
    """Whether a guard is true. An error is an error, never "no match" (TPL-09)."""
    data = guard.data
    if isinstance(data, str) and is_template(data):
        template: Template = parse(data)
        # An empty list of rows is false, also where the mapping around it is not empty.
        return truth(template.evaluate(scope, now, strict=strict, as_list=True))
    return truth(data)
