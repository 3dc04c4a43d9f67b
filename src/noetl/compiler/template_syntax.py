"""Template syntax: every text that will be rendered parses, and stays within the sandbox (VAL-15, TPL-11)."""

from __future__ import annotations

from noetl.compiler.compilation import Compilation
from noetl.compiler.text_places import place_in
from noetl.compiler.written_texts import written_texts
from noetl.document.playbook import Playbook
from noetl.errors import TemplateError
from noetl.templates.expression import parse


def check_template_syntax(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TEMPLATE at the exact place; nothing is evaluated."""
    for written in written_texts(playbook, compilation):
        try:
            parse(written.text)
        except TemplateError as error:
            place = place_in(written.scalar, error.offset, playbook.source)
            hint = 'an expression looks like "{{ workload.name }}" or "{{ ctx.count + 1 }}"'
            compilation.note("E_TEMPLATE", place, f"this template cannot be used: {error.message}", hint)
    return playbook
