"""SQL fragments: a command that is one single expression is SQL made at run time (DESIGN §8)."""

from __future__ import annotations

import re

from noetl.compiler.compilation import Compilation
from noetl.compiler.parsed_templates import parsed
from noetl.compiler.pipelines import every_task
from noetl.document.nodes import scalars
from noetl.document.playbook import Playbook
from noetl.source import is_template

_MARKED = re.compile(r"\|\s*sql\s*-?\}\}\s*\Z")


def check_sql_fragments(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_SQL_FRAGMENT; text that the author marked with `| sql` says that it is meant."""
    for task, _ in every_task(playbook):
        kind = compilation.kinds.get(task.kind)
        for known in kind.inputs if kind else ():
            node = task.inputs.get(known.name) if known.sql else None
            for scalar in scalars(node) if node is not None else ():
                text = scalar.value if isinstance(scalar.value, str) else ""
                template = parsed(text) if is_template(text) and not _MARKED.search(text) else None
                if template is not None and template.single:
                    compilation.note(
                        "W_SQL_FRAGMENT",
                        scalar,
                        "this SQL is wholly made by a template and runs as it comes out",
                        "write the SQL here and let templates fill in values, or mark it {{ … | sql }}",
                    )
    return playbook
