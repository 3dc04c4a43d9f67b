"""SQL text: what no database takes is told where it was written.

Only what the words themselves show: a first word that is nearly a known one, a quote or a bracket that is never closed,
a statement that ends where something must follow. The grammar is the database's business, and each has its own, so
what is found is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from noetl.base.errors import ToolError
from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import parsed, place_in
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import Playbook, TaskSyntax
from noetl.language.reading.shared_checks import distance
from noetl.net.net import ENDS, SQL_KEYS, TRANSFER
from noetl.templates.sql.lexer import HOLE, Kind, cut, has_blocks, tokens

# SQL: text that no value could make run is an error; text that one single expression makes is worth a warning.
#
# Where templates stand in SQL is told by the author's text alone (design.md §8), so most mistakes are found here and
# not at run time.

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
    from noetl.templates.sql.lexer import has_blocks
    from noetl.templates.sql.plan import bound_lists

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


MOST_CHARACTERS = 200_000  # of one text; what is longer is not looked at
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "MERGE", "TRUNCATE", "GRANT", "REVOKE")
_ALSO = frozenset({"DETACH", "SELECTOR", "UPSERT", "INSTALL", "RESET", "RELEASE", "DECLARE", "CREDIT"})
_NEVER_LAST = frozenset({"FROM", "WHERE", "AND", "OR", "SET", "INTO", "JOIN", "ON", "BY", "HAVING", "LIKE", "IN"})
# Other databases quote, escape and comment with these in ways of their own.
_FOREIGN = ("\\", "`", "#")
_CLOSES = {")": "(", "]": "["}


class SqlFlaw(NamedTuple):
    at: int  # in the text with one character per template
    length: int
    message: str
    hint: str


class _Word(NamedTuple):
    at: int
    kind: Kind
    text: str


def check_sql_text(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_SQL; each place once, wherever a workbook's task is used."""
    for scalar in {scalar: None for task, _ in every_task(playbook) for scalar in sql_texts(task, compilation)}:
        text = scalar.value
        if not isinstance(text, str) or not _is_readable(text):
            continue
        plain, holes = cut(text)
        for flaw in sql_flaws(plain):
            # a template before it makes the two texts differ in length, so then the text as a whole is pointed at
            is_exact = not any(hole.at < flaw.at for hole in holes)
            place = place_in(scalar, flaw.at, playbook.source, flaw.length) if is_exact else scalar
            compilation.note("W_SQL", place, flaw.message, flaw.hint)
    return playbook


def _is_readable(text: str) -> bool:
    if len(text) > MOST_CHARACTERS or has_blocks(text) or HOLE in text or any(sign in text for sign in _FOREIGN):
        return False
    if not is_template(text):
        return True
    template = parsed(text)
    return template is not None and not template.single


def sql_flaws(text: str) -> Iterator[SqlFlaw]:
    """What is wrong with SQL whatever database runs it; templates are one HOLE each."""
    try:
        words = list(_words(text))
    except ToolError as problem:
        yield SqlFlaw(0, 1, problem.message, "close it; a quote within a text is written twice: ''")
        return
    yield from _brackets(words)
    for statement in _statements(words):
        yield from _first(statement[0])
        yield from _last(statement[-1])


def _words(text: str) -> Iterator[_Word]:
    at = 0
    for token in tokens(text):
        if token.kind is not Kind.SPACE:
            yield _Word(at, token.kind, token.text)
        at += len(token.text)


def _brackets(words: list[_Word]) -> Iterator[SqlFlaw]:
    waiting: list[_Word] = []
    for word in words:
        if word.kind is not Kind.SIGN:
            continue
        if word.text in _CLOSES.values():
            waiting.append(word)
        elif word.text in _CLOSES:
            if not waiting or waiting[-1].text != _CLOSES[word.text]:
                yield SqlFlaw(word.at, 1, f'this SQL has a "{word.text}" that nothing opens', "leave it out")
                return
            waiting.pop()
        elif word.text == ";" and waiting:
            break
    if waiting:
        yield SqlFlaw(waiting[-1].at, 1, f'this SQL has a "{waiting[-1].text}" that is never closed', "close it")


def _statements(words: list[_Word]) -> Iterator[list[_Word]]:
    statement: list[_Word] = []
    for word in words:
        if word.kind is Kind.SIGN and word.text == ";":
            if statement:
                yield statement
            statement = []
        else:
            statement.append(word)
    if statement:
        yield statement


def _first(word: _Word) -> Iterator[SqlFlaw]:
    written = word.text.upper()
    if word.kind is not Kind.WORD or HOLE in written or written in _ALSO or written in _VERBS:
        return
    meant = next((verb for verb in _VERBS if distance(written, verb) <= (2 if len(verb) > 5 else 1)), None)
    if meant is not None:
        shown = meant if word.text.isupper() else meant.lower()
        yield SqlFlaw(
            word.at, len(word.text), f'no SQL statement begins with "{word.text}"', f'did you mean "{shown}"?'
        )


def _last(word: _Word) -> Iterator[SqlFlaw]:
    is_open = (word.kind is Kind.WORD and word.text.upper() in _NEVER_LAST) or (
        word.kind is Kind.SIGN and word.text == ","
    )
    if is_open or (word.kind is Kind.OPERATOR and word.text in ("=", "<", ">", "<=", ">=", "<>", "+", "||")):
        yield SqlFlaw(
            word.at, len(word.text), f'this SQL ends with "{word.text}"', "write what follows, or leave it out"
        )
