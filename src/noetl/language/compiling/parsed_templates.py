"""Parsed templates: those that parse, for every check that looks into them."""

from __future__ import annotations

from noetl.base.errors import TemplateError
from noetl.templates.expression import Template, parse


def parsed(text: str) -> Template | None:
    """A template, or None for one that was already noted."""
    try:
        return parse(text)
    except TemplateError:
        return None
