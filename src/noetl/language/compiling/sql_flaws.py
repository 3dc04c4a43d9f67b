"""SQL that no database accepts, reported at its place.

Only mistakes that the words themselves show: a misspelt first word, a misspelt keyword between two values, a quote or a
bracket that is never closed, a statement that ends too early. Each database has its own grammar, so the findings are
warnings.
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
# First words of statements of some databases that look like a misspelt verb.
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
    """The mistakes in SQL for any database; each template is one HOLE."""
    try:
        words = list(_words_of(text))
    except ToolError as problem:
        yield SqlFlaw(0, len(text), problem.message, "close it; a quote within a text is written twice: ''")
        return
    yield from _brackets(words)
    for statement in _statements(words):
        yield from _first_word_flaws(statement[0])
        yield from _clauses(statement)
        yield from _last_word_flaws(statement[-1])


def _words_of(text: str) -> Iterator[_Word]:
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
        # A bracket that is open at the end of a statement; later findings would only repeat it.
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


def _first_word_flaws(word: _Word) -> Iterator[SqlFlaw]:
    written = word.text.upper()
    if word.kind is not Kind.WORD or HOLE in written or written in _ALSO or written in _VERBS:
        return
    meant = next((verb for verb in _VERBS if is_within(written, verb, 2 if len(verb) > 5 else 1)), None)
    if meant is not None:
        shown = meant if word.text.isupper() else meant.lower()
        yield SqlFlaw(
            word.at, len(word.text), f'no SQL statement begins with "{word.text}"', f'did you mean "{shown}"?'
        )


def _last_word_flaws(word: _Word) -> Iterator[SqlFlaw]:
    is_open = (word.kind is Kind.WORD and word.text.upper() in _NEVER_LAST) or (
        word.kind is Kind.SIGN and word.text == ","
    )
    if is_open or (word.kind is Kind.OPERATOR and word.text in ("=", "<", ">", "<=", ">=", "<>", "+", "||")):
        yield SqlFlaw(
            word.at, len(word.text), f'this SQL ends with "{word.text}"', "write what follows, or leave it out"
        )


# Clauses: `SELECT * FORM t`. No database accepts two values with a third word between them, so such a word that
# resembles FROM is meant as FROM. It may still be the name of a column or a table, hence the conditions.

_CLAUSES = ("FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "VALUES", "INTO", "SET")
_CHECKED = frozenset({"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"})
# Words after which a value or a name begins, or that follow one: none of them is a value itself.
_RESERVED = (
    "ALL AND ANTI ANY AS ASC ASOF AT BETWEEN BOTH BULK BY CASE COLLATE CONNECT CROSS CUBE DATE DEFAULT DELETE DESC "
    "DISTINCT DISTINCTROW DO ELSE END ESCAPE EXCEPT EXCLUDE EXISTS FETCH FILTER FINAL FOR FROM FULL GLOB GROUP GROUPS "
    "HAVING IF IGNORE ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LEADING LEFT LIKE LIMIT MATCH "
    "MERGE MINUS NATURAL NEW NEXT NOT NOTHING NULL NULLS OF OFFSET OLD ON ONLY OR ORDER OUTER OUTPUT OVER OVERLAPS "
    "OVERRIDING OVERWRITE PARTITION PERCENT PIVOT PRIOR QUALIFY RANGE REGEXP RENAME REPLACE RETURNING RIGHT RLIKE ROW "
    "ROWS SAMPLE SELECT SEMI SET SETTINGS SIMILAR SOME START STRAIGHT_JOIN TABLE TABLESAMPLE THEN TIES TIME TIMESTAMP "
    "TO TOP TRAILING UNION UNIQUE UNNEST UNPIVOT UPDATE USE USING VALUE VALUES WHEN WHERE WINDOW WITH WITHIN XOR "
    "HIGH_PRIORITY LOW_PRIORITY SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_CACHE SQL_CALC_FOUND_ROWS SQL_NO_CACHE "
    "SQL_SMALL_RESULT"
)
_KEYWORDS = frozenset(_RESERVED.split())
_COMPARING = frozenset({"IS", "IN", "LIKE", "ILIKE", "BETWEEN", "NOT"})
_LONG = 5


def _clauses(statement: list[_Word]) -> Iterator[SqlFlaw]:
    if statement[0].text.upper() not in _CHECKED:
        return
    for part in _levels(statement):
        for at, word in enumerate(part):
            meant = _meant_clause(word)
            if meant and _FITS[meant](part, at):
                shown = meant if word.text.isupper() else meant.lower()
                message = f'"{word.text}" stands where a word such as {meant} is needed'
                yield SqlFlaw(word.at, len(word.text), message, f'did you mean "{shown}"?')
                return  # with this word corrected, the rest would be read differently


def _levels(words: list[_Word]) -> Iterator[list[_Word]]:
    """The words outside of all brackets, then those of each bracket; a bracket counts as one word of its outer
    level."""
    parts: list[list[_Word]] = [[]]
    done: list[list[_Word]] = []
    for word in words:
        if word.kind is Kind.SIGN and word.text in "([":
            parts[-1].append(_Word(word.at, Kind.SIGN, "()"))
            parts.append([])
        elif word.kind is Kind.SIGN and word.text in ")]" and len(parts) > 1:
            done.append(parts.pop())
        else:
            parts[-1].append(word)
    return iter([*parts, *done])


def _meant_clause(word: _Word) -> str | None:
    written = word.text.upper()
    if word.kind is not Kind.WORD or HOLE in written or written in _KEYWORDS:
        return None
    # A name in small and large letters, such as `Orders`, is meant as a name.
    if not (word.text.isupper() or word.text.islower()):
        return None
    return next((clause for clause in _CLAUSES if is_within(written, clause, 2 if len(clause) > _LONG else 1)), None)


def _word(part: list[_Word], at: int) -> str:
    return part[at].text.upper() if 0 <= at < len(part) and part[at].kind is Kind.WORD else ""


def _is_value(part: list[_Word], at: int) -> bool:
    """Whether the token is, ends or starts a value or a name. A template may be more than one value."""
    if not 0 <= at < len(part):
        return False
    word = part[at]
    if word.kind is Kind.WORD:
        return word.text.upper() not in _KEYWORDS and HOLE not in word.text
    return word.kind in (Kind.NAME, Kind.TEXT, Kind.NUMBER, Kind.PLACE, Kind.DOLLAR) or word.text == "()"


def _is_after_value(part: list[_Word], at: int) -> bool:
    return _is_value(part, at - 1) or _word(part, at - 1) in ("END", "NULL")


def _is_after_all(part: list[_Word], at: int) -> bool:
    """Whether the word follows a `*` that means all columns (`SELECT *`, `a, *`, `t.*`) and not a product."""
    if at < 2 or part[at - 1].kind is not Kind.OPERATOR or part[at - 1].text != "*":
        return False
    return _word(part, at - 2) in ("SELECT", "DISTINCT", "ALL") or part[at - 2].text in (",", ".")


def _has_clause(part: list[_Word], clause: str) -> bool:
    return any(_word(part, at) == clause for at in range(len(part)))


def _as_from(part: list[_Word], at: int) -> bool:
    """`SELECT a, b FORM t`, and no FROM for these columns."""
    begins = [index for index in range(at) if _word(part, index) == "SELECT"]
    is_between = _is_after_value(part, at) and _is_value(part, at + 1)
    if not begins or not (is_between or _is_after_all(part, at)):
        return False
    ends = [index for index in range(at, len(part)) if _word(part, index) in ("UNION", "EXCEPT", "INTERSECT", "MINUS")]
    return not _has_clause(part[begins[-1] : ends[0] if ends else len(part)], "FROM")


def _as_where(part: list[_Word], at: int) -> bool:
    """`FROM t WHER a = 1`: a comparison follows."""
    if not _is_value(part, at - 1) or not _is_value(part, at + 1):
        return False
    after = at + 2
    while after + 1 < len(part) and part[after].text == ".":
        after += 2
    is_compared = after < len(part) and part[after].kind is Kind.OPERATOR and part[after].text[0] in "=<>!"
    return is_compared or _word(part, after) in _COMPARING


def _as_by(part: list[_Word], at: int) -> bool:
    """`FROM t ODER BY a`, `OVER (ODER BY a)`."""
    is_clause = at == 0 or _is_after_value(part, at) or HOLE in part[at - 1].text
    return is_clause and _word(part, at + 1) == "BY" and _is_value(part, at + 2)


def _as_limit(part: list[_Word], at: int) -> bool:
    """`FROM t LIMT 5`."""
    is_clause = _is_after_value(part, at) or _word(part, at - 1) in ("ASC", "DESC") or HOLE in part[at - 1].text
    return is_clause and at + 1 < len(part) and part[at + 1].kind is Kind.NUMBER


def _as_values(part: list[_Word], at: int) -> bool:
    """`INSERT INTO t (a) VALEUS (1)`."""
    if _word(part, 0) != "INSERT" or any(_has_clause(part, one) for one in ("VALUES", "VALUE", "SELECT", "DEFAULT")):
        return False
    return at > 1 and at + 1 < len(part) and part[at - 1].text == "()" and part[at + 1].text == "()"


def _as_into(part: list[_Word], at: int) -> bool:
    """`INSERT INOT t (a) VALUES (1)`, where no other word is allowed between INSERT and the table."""
    return at == 1 and _word(part, 0) == "INSERT" and _is_value(part, 2) and part[2].text != "()"


def _as_set(part: list[_Word], at: int) -> bool:
    """`UPDATE t STE a = 1`, and no SET in it."""
    is_assigned = _is_value(part, at + 1) and at + 2 < len(part) and part[at + 2].text == "="
    return _word(part, 0) == "UPDATE" and at > 1 and is_assigned and not _has_clause(part, "SET")


_FITS = {
    "FROM": _as_from,
    "WHERE": _as_where,
    "GROUP": _as_by,
    "ORDER": _as_by,
    "LIMIT": _as_limit,
    "VALUES": _as_values,
    "INTO": _as_into,
    "SET": _as_set,
}
