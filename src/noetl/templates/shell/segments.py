"""Command text into what the author wrote and the templates between.

Statements (`{% … %}`) would make commands out of values and are refused.
"""

from __future__ import annotations

from functools import lru_cache

from noetl.base.errors import ToolError
from noetl.base.source import is_template
from noetl.templates.expression import Template, parse
from noetl.templates.references import references

Piece = str | Template


@lru_cache(maxsize=2_048)
def pieces(text: str) -> tuple[Piece, ...]:
    """The text and the templates of a command, in order. ToolError `shell.template` for `{% … %}`."""
    if not is_template(text):
        return (text,) if text else ()
    parse(text)  # everything the sandbox refuses is refused here
    from jinja2 import nodes

    from noetl.templates.syntax import read_tree

    found: list[Piece] = []
    for part in read_tree(text).body:
        if not isinstance(part, nodes.Output):
            word = type(part).__name__.lower()
            raise ToolError(
                "shell.template",
                f'a "{word}" block would make commands out of values; write {{{{ … }}}} where a value stands, '
                "or a list of arguments",
            )
        for node in part.nodes:
            if isinstance(node, nodes.TemplateData):
                found.append(node.data)
            else:
                tree = nodes.Template([nodes.Output([node], lineno=node.lineno)], lineno=1)
                found.append(Template(text, single=True, references=references(tree), tree=tree))
    return tuple(found)
