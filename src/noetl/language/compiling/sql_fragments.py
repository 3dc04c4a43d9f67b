"""SQL: text that no value could make run is an error; text that one single expression makes is worth a warning.

Where templates stand in SQL is told by the author's text alone (design.md §8), so most mistakes are found here and not
at run time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import parsed, place_in
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.net.net import ENDS, SQL_KEYS, TRANSFER

# The author has said that it is SQL of their own: no warning.
_MARKED = re.compile(r"\|\s*sql\s*-?\}\}\s*\Z")
_JOINED = re.compile(
    r"\bIN\s*\(\s*'?(\{\{(?:(?!\}\}|\|\s*sql\b).)*\|\s*join\b(?:(?!\}\}|\|\s*sql\b).)*\}\})'?\s*\)", re.I | re.S
)
_BODY = re.compile(r"\$(\w*)\$(?P<body>.*?)\$\1\$", re.S)  # the text of a DO block or a function
_VALUE = re.compile(r"\{\{(?:(?!\}\}|\|\s*(?:sql|identifier)\b).)*\}\}", re.S)
_BIND = "let templates stand where values stand: those are bound"


def check_sql_fragments(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_TEMPLATE and W_SQL_FRAGMENT; each place once, wherever a workbook's task is used."""
    written = {scalar: None for task, _ in every_task(playbook) for scalar in sql_texts(task, compilation)}
    if written:
        _check_texts(written, playbook, compilation)
    return playbook


def _check_texts(written: Iterable[Scalar], playbook: Playbook, compilation: Compilation) -> None:
    from noetl.templates.sql.plan import KEYCHAIN, impossible  # most playbooks have no SQL

    for scalar in written:
        text = scalar.value if isinstance(scalar.value, str) else ""
        template = parsed(text) if is_template(text) else None
        if template is None:
            continue
        if not template.single:
            if (found := impossible(text)) is not None:
                why, _, way_out = found.why.partition("; ")
                place = place_in(scalar, found.at, playbook.source)
                compilation.note("E_TEMPLATE", place, f"this SQL cannot run: {why}", way_out or _BIND)
            else:
                _note_joined(scalar, text, playbook, compilation)
                _note_bodies(scalar, text, playbook, compilation)
        elif any(read.root in KEYCHAIN for read in template.references):
            message = "this SQL cannot run: it is wholly made of a secret, and a secret can only be bound"
            compilation.note("E_TEMPLATE", scalar, message, _BIND)
        elif not _MARKED.search(text):
            compilation.note(
                "W_SQL_FRAGMENT",
                scalar,
                "this SQL is wholly made by a template and runs as it comes out",
                "write the SQL here and let templates fill in values, or mark it {{ … | sql }}",
            )


def _note_joined(scalar: Scalar, text: str, playbook: Playbook, compilation: Compilation) -> None:
    from noetl.templates.sql.plan import bound_lists
    from noetl.templates.sql.segments import has_blocks

    lists = frozenset() if has_blocks(text) else bound_lists(text)
    for joined in _JOINED.finditer(text):
        if joined.start(1) not in lists:
            place = place_in(scalar, joined.start(1), playbook.source)
            message = "joined text is bound as one value, and IN compares with that text alone"
            compilation.note("W_SQL_FRAGMENT", place, message, "leave join out: IN ({{ … }}) takes a list")


def _note_bodies(scalar: Scalar, text: str, playbook: Playbook, compilation: Compilation) -> None:
    """A body between `$$` is text to the database: nothing in it can be bound, only names may be put there (O-23)."""
    for body in _BODY.finditer(text):
        value = _VALUE.search(text, body.start("body"), body.end("body"))
        if value is not None:
            place = place_in(scalar, value.start(), playbook.source)
            message = "nothing can be bound within $$: the task fails with sql.fragment unless this gives a plain name"
            hint = "read the value outside, e.g. SELECT set_config('app.x', '{{ … }}', true), or mark it {{ … | sql }}"
            compilation.note("W_SQL_FRAGMENT", place, message, hint)


def has_sql(playbook: Playbook, compilation: Compilation) -> bool:
    """Whether some task of the playbook runs SQL."""
    return any(True for task, _ in every_task(playbook) for _ in sql_texts(task, compilation))


def sql_texts(task: TaskSyntax, compilation: Compilation) -> Iterator[Scalar]:
    """The texts of a task that are SQL; those of a transfer stand in its ends."""
    kind = compilation.kinds.get(task.kind)
    for known in kind.inputs if kind else ():
        if known.sql:
            yield from _texts(task.inputs.get(known.name))
    for end in ENDS if task.kind == TRANSFER else ():
        node = task.inputs.get(end)
        for key in SQL_KEYS:
            yield from _texts(node.values.get(key) if isinstance(node, Mapping) else None)


def _texts(node: Node | None) -> Iterator[Scalar]:
    return scalars(node) if node is not None else iter(())
