"""SQL that no database takes, told where it was written.

Only what the words themselves show: a first word that is nearly a known one, a quote or a bracket that is never closed,
a statement that ends where something must follow. The grammar is the database's business, and each has its own, so
what is found is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.base.diagnostics import is_template
from noetl.base.errors import ToolError
from noetl.language.compiling.embedded_code import sql_texts
from noetl.language.compiling.passes import Compilation, every_task
from noetl.language.compiling.text_positions import parsed, word_in
from noetl.language.reading.playbook import Playbook
from noetl.language.reading.shared_checks import is_within
from noetl.templates.sql.lexer import HOLE, Kind, cut, has_blocks, tokens

# Per text. Longer texts are not checked.
MAX_SQL_CHARACTERS = 200_000
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "MERGE", "TRUNCATE", "GRANT", "REVOKE")
# Words that other databases begin a statement with and that look like a misspelt verb.
_ALSO = frozenset({"DETACH", "SELECTOR", "UPSERT", "INSTALL", "RESET", "RELEASE", "DECLARE", "CREDIT"})
_NEVER_LAST = frozenset({"FROM", "WHERE", "AND", "OR", "SET", "INTO", "JOIN", "ON", "BY", "HAVING", "LIKE", "IN"})
# Other databases quote, escape and comment with these in ways of their own.
_FOREIGN = ("\\", "`", "#")
_CLOSES = {")": "(", "]": "["}


class SqlFlaw(NamedTuple):
    # Offset in the text after each template was replaced by one character.
    at: int
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
        plain, _ = cut(text)
        for flaw in sql_flaws(plain):
            place = word_in(scalar, plain, flaw.at, flaw.length, playbook.source)
            compilation.note("W_SQL", place, flaw.message, flaw.hint)
    return playbook


def _is_readable(text: str) -> bool:
    if len(text) > MAX_SQL_CHARACTERS or has_blocks(text) or HOLE in text or any(sign in text for sign in _FOREIGN):
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
        yield SqlFlaw(0, len(text), problem.message, "close it; a quote within a text is written twice: ''")
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
        # A bracket that is open at the end of a statement; what follows would only repeat it.
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
    meant = next((verb for verb in _VERBS if is_within(written, verb, 2 if len(verb) > 5 else 1)), None)
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
