"""Template syntax: every text that will be rendered parses, and stays within the sandbox (VAL-15, TPL-11)."""

from __future__ import annotations

from noetl.base.errors import TemplateError
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.template_sites import written_texts
from noetl.language.compiling.text_positions import place_in
from noetl.language.reading.playbook import Playbook
from noetl.templates.expression import parse

_LOOKS = 'an expression looks like "{{ workload.name }}" or "{{ ctx.count + 1 }}"'
# What a writer of another language meant, by what the parser stumbled over.
_MEANT = {
    'char "&"': 'write "and"',
    'got "|"': 'write "or"',
    'char "!"': 'write "not"',
    'char "?"': "write {{ this if condition else that }}",
    '"="': "compare with ==",
    "end of template": "close {{ with }}, {% for %} with {% endfor %}, {% if %} with {% endif %}",
}


def check_template_syntax(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TEMPLATE at the exact place; nothing is evaluated."""
    for written in written_texts(playbook, compilation):
        try:
            parse(written.text)
        except TemplateError as error:
            place = place_in(written.scalar, error.offset, playbook.source)
            wrong, hint = _told_apart(error.message)
            compilation.note("E_TEMPLATE", place, f"this template cannot be used: {wrong}", hint or _way_out(wrong))
    return playbook


def _told_apart(message: str) -> tuple[str, str]:
    """What is wrong and the way out, where the message has both: `there is no filter "x": use y`."""
    wrong, _, way_out = message.partition('": ')
    return (f'{wrong}"', way_out) if way_out else (message, "")


def _way_out(wrong: str) -> str:
    return next((way_out for mark, way_out in _MEANT.items() if mark in wrong), _LOOKS)
