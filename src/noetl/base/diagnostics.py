"""Diagnostics: the messages of the checker to an author, each with a code, a place and a hint (VAL-19).

A code is written once, in `CODES`; its letter gives the severity. Packages below the command line only collect
diagnostics; how they are printed is the business of `cli/report.py`.

Places in a source text count lines and columns from one, as editors show them; offsets count characters from zero, as
slices do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

import msgspec


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch of source text; `end_column` is the column just past its last character."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int = 0
    end: int = 0


NOWHERE = Span(1, 1, 1, 1)
TEST_SUFFIX = ".test.yaml"  # the ending of a file of tests, which is beside its playbook and is no playbook


class Source(msgspec.Struct, frozen=True):
    """One text under the name people know it by, usually its file name."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """The text of line `number` without its line break, or nothing past the end."""
        lines = self.text.split("\n", number)
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""

    def cut(self, span: Span) -> str:
        """The text that `span` covers."""
        return self.text[span.start : span.end]


def is_template(text: str) -> bool:
    """Whether text holds a template delimiter."""
    return "{{" in text or "{%" in text or "{#" in text


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8. Half of a surrogate pair cannot: it may come from an escape, or from bytes on
    a command line that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class PositionedDiagnostic(Protocol):
    """Anything with a position in the text; mostly nodes of a document."""

    @property
    def path(self) -> str: ...

    @property
    def span(self) -> Span: ...


class DiagnosticPosition(msgspec.Struct, frozen=True):
    """A path in the document (`workflow[0].next.arcs[0].step`) and its position in the text."""

    path: str = ""
    span: Span = NOWHERE


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding. `witness` is the firing sequence that shows it, for the proofs of `analysis`."""

    code: str
    path: str
    span: Span
    message: str
    hint: str = ""
    witness: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        return _SEVERITIES[self.code[0]]

    @property
    def line(self) -> int:
        return self.span.line


_SEVERITIES = {"E": Severity.ERROR, "W": Severity.WARNING, "I": Severity.NOTE}


class Findings:
    """A growing list of diagnostics, read in document order."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._found = list[Diagnostic]()
        self._refused = set[Span]()  # places of errors
        self.extend(found)

    def add(
        self, code: str, place: PositionedDiagnostic, message: str, hint: str = "", witness: tuple[str, ...] = ()
    ) -> None:
        """Note `code` at `place`; an unknown code is our own mistake and fails at once."""
        if code not in CODES:
            raise LookupError(f"diagnostic code {code} is not in noetl.base.diagnostics.CODES")
        self.extend([Diagnostic(code, place.path, place.span, message, hint, witness)])

    def replace(self, old: Diagnostic, new: Diagnostic) -> None:
        """Replace one finding by another; neither may be an error."""
        self._found[self._found.index(old)] = new

    def extend(self, found: Iterable[Diagnostic]) -> None:
        for each in found:
            self._found.append(each)
            if each.code[0] == "E":
                self._refused.add(each.span)

    def refuses(self, place: PositionedDiagnostic) -> bool:
        """Whether there is an error at exactly this place."""
        return place.span in self._refused

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(in_order(self._found))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def has_errors(self) -> bool:
        return bool(self._refused)


def in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by place, then code; repeated ones once, so that every run prints the same list."""
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda d: (d.span.line, d.span.column, d.code, d.path, d.message))


# Every code with what it is raised for, in one sentence (docs/checks.md shows each with an example).
CODES: dict[str, str] = {
    # errors: the document
    "E_YAML": "The text is not one YAML document with a mapping at its root, or it breaks a safety limit.",
    "E_API_VERSION": "apiVersion is missing, older or unknown.",
    "E_KIND": "kind is not Playbook.",
    "E_METADATA": "metadata.name or metadata.path is missing, or conflicts with another spelling of it.",
    "E_ROOT_KEY": "A root section is not one of the known ones.",
    "E_ROOT_VARS": "vars at the root: no dialect has it.",
    "E_ROOT_NAME": "name or path at the root outside v2-case.",
    "E_DIALECT_MIXED": "The document has strong markers of two dialects.",
    "E_EXECUTOR": "executor.kind and executor.profile disagree, or hold an unknown value.",
    "E_WORKFLOW": "workflow is not a non-empty list of steps.",
    "E_STEP_NAME": "A step has no name.",
    "E_STEP_DUP": "Two steps share a name.",
    "E_STEP_KEY": "A step has a key it does not know.",
    "E_STEP_EMPTY": "A v2-case step has none of tool, next, case or a wait block.",
    "E_NO_START": "There is no step to begin with.",
    "E_PIPE": "pipe does not exist: a tool list already is an ordered pipeline.",
    # errors: conditions and policies
    "E_STEP_WHEN": "when on a step in v10.",
    "E_TASK_WHEN": "when on a task.",
    "E_EVAL": "eval in v10.",
    "E_EXPR": "expr in v10.",
    "E_CASE": "case outside v2-case.",
    "E_POLICY_SHAPE": "A policy is not a mapping of the shape its scope asks for.",
    "E_POLICY_SCOPE": "A policy holds control actions or keys that belong to another scope.",
    "E_RULE_SHAPE": "A rule is not {when, then} or {else: {then}}, or has unknown keys.",
    "E_ELSE_ORDER": "else is not the last rule, or stands twice.",
    "E_DO": "do is not one of retry, jump, continue, break, fail.",
    "E_JUMP_TARGET": "jump without to, or to a task that is not in this step.",
    "E_RETRY_ARGS": "A retry without a usable number of attempts or delay.",
    "E_BACKOFF": "backoff is not one of the dialect's words.",
    "E_RESERVED_OPTION": "An option value is reserved for later.",
    "E_RETRY_BLOCK": "retry on a step outside v2-case.",
    "E_VARS_BLOCK": "vars on a step outside v2-case.",
    "E_SET_SCOPE": "set_vars, set_shared or set_prev in v10.",
    "E_PARALLEL_VARS": "set_vars in a parallel loop.",
    "E_SINK": "sink outside v2-case, or kind: sink anywhere.",
    "E_SPEC_OPTION": "A spec option that its construct does not have.",
    # errors: tasks
    "E_TASK_LABEL": "A task written as {label: {kind: …}} in v10.",
    "E_TASK_KEY": "A task has a key it does not know.",
    "E_INPUT_SHAPE": "An input is written in a shape that its tool does not read.",
    "E_TASK_DUP": "Two tasks of one step share a name.",
    "E_RESERVED_NAME": "A name that templates reserve for themselves.",
    "E_TOOL_KIND": "A tool kind that neither NoETL nor a plug-in provides.",
    "E_LOOP_KIND": "kind: loop; a loop is a step modifier.",
    "E_WORKBOOK_REF": "A workbook task that does not exist, or references that go in a circle.",
    # errors: routing and loops
    "E_NEXT_SHAPE": "next is not of the shape its dialect writes.",
    "E_NEXT_WHEN": "when or then inside next of a v2-case document.",
    "E_NEXT_REF": "A route leads to a step that does not exist.",
    "E_TARGET_TEMPLATE": "A templated target in v10.",
    "E_LOOP_SHAPE": "A loop without both in and iterator, or with keys of another dialect.",
    "E_LOOP_MODE": "The loop's mode is unknown, or set twice with different values.",
    # errors: templates, secrets, time
    "E_TEMPLATE": "A template that does not parse, that the sandbox refuses, or that stands in SQL where nothing fits.",
    "E_UNDEFINED_NAME": "A template reads a name, or a key of a known value, that nothing in the playbook defines.",
    "E_GUARD_LITERAL": "A condition that is plain text and would always be true.",
    "E_KEYCHAIN": "A malformed keychain entry, or keychain read where the server evaluates, or written to ctx.",
    "E_DURATION": "Text that is not a duration or a time.",
    "E_NOTIFY": "A notification that names an unknown event or destination, or lacks a part.",
    "E_TRIGGER": "A trigger that is not a valid cron schedule.",
    "E_TIMEOUT_SHAPE": "A timeout block with missing or contradictory parts.",
    "E_WAIT_LOOP": "A wait block on a looped step.",
    # warnings
    "W_ERROR_UNMATCHED": "A policy lets an error outcome pass unmatched, and the pipeline goes on.",
    "W_ERROR_ACCEPTED": "A rule or an arc that is not about errors takes them, too, and the execution goes on.",
    "W_RETRY_LAST": "A rule below a retry of the same errors, which is not reached after the last attempt.",
    "W_ERROR_KIND": "A condition names a kind of error that its tool never gives, or a status that no outcome has.",
    "W_ARC_SHADOWED": "An arc that an earlier unguarded arc always takes first.",
    "W_EVENT_NEVER": "A guard names an event this step never has.",
    "W_CASE_IN_LOOP": "A case rule of a looped step works in every iteration, though nothing in it is about one.",
    "W_ADMIT_NO_ELSE": "Admission rules without else: what matches none is denied.",
    "W_ITER_IN_ARC": "iter read in an arc, where it is undefined.",
    "W_SPEC_KEY": "A spec key no built-in tool reads.",
    "W_FOREIGN_NAME": "A template name, or braces, of another dialect or system, or a name that cannot be seen here.",
    "W_UNDEFINED_NAME": "The same in a document under noetl.io/v2: reading the name fails the template at run time.",
    "W_WORKLOAD_KEY": "A template reads an undeclared key of workload, or an input of the run from ctx.",
    "W_WORKLOAD_VALUE": "A value of workload that will be read otherwise than it looks: a template, or yes and no.",
    "W_UNREACHABLE": "A step or task that can never run.",
    "W_UNKNOWN_KEY": "A key this version does not know.",
    "W_TOOL_KIND": "A tool kind that a plug-in must provide at run time.",
    "W_KEYCHAIN": "A credential that is not in the keychain.",
    "W_SECRET": "A secret that stands in the text of the playbook.",
    "W_SQL_FRAGMENT": "SQL text that is wholly made by a template.",
    "W_SQL": "SQL that no database takes: a misspelt keyword, an open quote or bracket, a missing end.",
    "W_PYTHON": "Python code that does not parse, that gives nothing back, or that has a template in it.",
    # warnings: proofs
    "W_DEADLOCK": "Tokens can wait for each other forever.",
    "W_JOIN_UNFILLED": "A join that can get fewer tokens than it waits for.",
    "W_TOKEN_LEFT": "A token can end outside the join its siblings wait at.",
    "W_NO_END": "A step from which no end can be reached.",
    "W_EVENT_UNROUTED": "A boundary event that no arc takes.",
    "W_GUARD_OVERLAP": "An arc or rule that is never taken, because an earlier one takes all its cases.",
    "W_CYCLE_UNBOUNDED": "A cycle for which no reason to end was found.",
    "W_RESOURCE_DEADLOCK": "Limits that can wait for each other.",
    "W_USED_BEFORE_SET": "A value read before any path can have set it.",
    "W_TOKEN_GROWTH": "A cycle that makes more tokens each round.",
    # notes
    "I_DIALECT": "The document is of an older dialect.",
    "I_TIMEOUT_SCOPE": "A timeout that means something else at this scope.",
    "I_ALIAS": "A spelling that is accepted, and the canonical one.",
    "I_NOT_DECIDED": "The analysis ran out of budget before it could decide.",
}


# The known word that was probably meant by a misspelt one. Comparing two words costs the product of their lengths, and
# a text may have thousands of misspelt words and thousands of similar names. So the work is bounded for each word and
# each text; beyond the bound there is no suggestion.

# Letters of one word times letters of the other. A million take some 60 ms where all words are alike, mostly far less.
MOST_OF_WORD = 1_000_000
MOST_OF_TEXT = 10_000_000

_letters_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def guesses_of_one_text() -> Iterator[None]:
    """Bound all guesses in the block together."""
    token = _letters_left.set([MOST_OF_TEXT])
    try:
        yield
    finally:
        _letters_left.reset(token)


def may_compare(work: int) -> bool:
    """Whether a comparison of this cost is within the bound; the cost is counted for the text."""
    left = _letters_left.get()
    if work > MOST_OF_WORD or (left is not None and work > left[0]):
        return False
    if left is not None:
        left[0] -= work
    return True


def nearest_word(word: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """The nearest of the known words; None if none is near, or if finding it would take too long."""
    # The number is checked before the lengths are added up: there may be ten thousand known words.
    if len(word) * len(known) > MOST_OF_WORD or not may_compare(len(word) * sum(map(len, known))):
        return None
    # Imported here, since only a failing check needs it.
    from difflib import get_close_matches

    # Of two letters, half of the words with both would be near: `on` is not a misspelt `json`.
    needed = cutoff if len(word) > 2 else max(cutoff, 0.75)
    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=needed)), None)
