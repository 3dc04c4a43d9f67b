"""Functions that every reader shares: reading keys, words, guards, numbers and times, with the messages for mistakes.

A reader never stops at a mistake: it reports it, uses the nearest sensible value or none, and continues, so that an
author sees all mistakes at once (VAL-19). A literal is checked here; the value of a template is known at run time only.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Mapping as Table
from datetime import datetime

import msgspec

from noetl.base.diagnostics import (
    DiagnosticPosition,
    Findings,
    PositionedDiagnostic,
    is_template,
    may_compare,
    nearest_word,
)
from noetl.base.durations import FORMS, seconds
from noetl.base.template_names import as_one_expression, has_text_around, template
from noetl.language.grammar.model import Construct, Unknown
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, describe
from noetl.language.reading.playbook import Dialect
from noetl.net.kinds import Kinds


class ReadContext(msgspec.Struct):
    """The context of a reader: the dialect, the list of findings, the strictness about unknown keys, and the tool
    kinds, some of which have a policy of their own."""

    dialect: Dialect
    findings: Findings
    strict: bool = False  # --strict
    v10_api: bool = False  # apiVersion: noetl.io/v10
    kinds: Kinds = {}

    def error(self, code: str, place: PositionedDiagnostic, message: str, hint: str = "") -> None:
        self.findings.add(code, place, message, hint)


def distance(a: str, b: str) -> int:
    """Edits between two words (insert, delete, replace, swap neighbours), for typos."""
    previous: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, previous, row = previous, row, [i]
        for j, y in enumerate(b, 1):
            best = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x != y))
            # Two neighbours swapped are one slip of the fingers, not two.
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            row.append(best)
    return row[-1]


def is_within(a: str, b: str, reach: int) -> bool:
    """Whether at most `reach` edits lie between two words."""
    # The lengths are compared first: a word may be as long as the text.
    return abs(len(a) - len(b)) <= reach and distance(a, b) <= reach


def did_you_mean(word: str, allowed: Collection[str], otherwise: str = "") -> str:
    """A hint for an unknown word: the nearest allowed one, else the allowed set when it is short."""
    guess = nearest_word(word, allowed)
    if guess:
        return f'did you mean "{guess}"?'
    return otherwise or f"allowed here: {', '.join(allowed)}"


_FAR = 2  # edits of a long word


def is_typo(word: str, allowed: Collection[str]) -> bool:
    """One or two letters from a known key (DOC-10); a short word must also begin like it, or most words would be."""
    near = [known for known in allowed if known != word and abs(len(word) - len(known)) <= _FAR]
    if not may_compare(sum(len(word) * len(known) for known in near)):
        return False
    return any(is_within(word, known, _reach(word, known)) for known in near)


def _reach(word: str, known: str) -> int:
    return _FAR if min(len(word), len(known)) > 4 or word[:2] == known[:2] else 1


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake_case(word: str) -> str:
    """`dependsOn` and `depends-on` as `depends_on`: each system has its own way to join words."""
    return _HUMP.sub("_", word).replace("-", "_").lower()


# Keys of other systems that decide whether, when or how often something runs. If such a key were ignored, the playbook
# would behave differently.
DECIDING = frozenset(
    {"depends_on", "needs", "after", "if", "condition", "unless", "switch", "loop"}
    | {"foreach", "for_each", "for", "each", "with_items", "iterate"}
    | {"run_if", "skip_if", "skip", "only_if", "enabled", "disabled", "trigger_rule", "wait_for", "join", "pool"}
    | {"retries", "max_retries", "retry_count", "retry_strategy", "retry_policy", "retry_delay"}
    | {"operator", "python_callable", "bash_command", "run", "call", "tasks", "action", "uses", "pipeline"}
    | {"strategy", "rescue", "always", "except", "finally"}
    | {"sleep", "wait", "delay", "pause", "approval", "approve", "on_success", "on_failure", "on_error", "catch"}
    | {"matrix", "while", "until", "repeat", "goto", "transition", "next_step", "fallback", "errors"}
    | {"concurrency", "max_concurrency", "parallel", "continue_on_error", "ignore_errors", "allow_failure"}
)
# The same at the root of a playbook.
DECIDING_AT_ROOT = frozenset(
    {"schedule", "schedule_interval", "cron", "triggers", "finally", "on_failure", "on_error", "on_success", "errors"}
    | {"jobs", "tasks", "dag", "retries", "retry", "timeout", "concurrency", "defaults", "default_args"}
)


_DECIDING_IN = {"E_STEP_KEY": DECIDING, "E_ROOT_KEY": DECIDING_AT_ROOT}


def known_keys(
    reading: ReadContext,
    node: Mapping,
    allowed: Collection[str],
    code: str,
    what: str,
    *,
    closed: bool = False,
    handled: Collection[str] = (),
    elsewhere: Table[str, str] | None = None,
) -> None:
    """Note every key of `node` outside `allowed` (DOC-10).

    An error under noetl.io/v10, --strict, `closed`, for a typo, or for a key that decides what runs; else the warning
    W_UNKNOWN_KEY. Keys with a code of their own are `handled` by the caller: they are passed over here and never
    suggested. `elsewhere` has the hints of keys that exist, only not here.
    """
    hints = elsewhere or {}
    for key, key_node, _ in node.items():
        if key in allowed or key in handled:
            continue
        hint = hints.get(key) or hints.get(snake_case(key)) or did_you_mean(key, allowed)
        decides = snake_case(key) in _DECIDING_IN.get(code, ())
        if closed or reading.strict or reading.v10_api or decides or is_typo(key, allowed):
            reading.error(code, key_node, f'"{key}" is not a key of {what}', hint)
        else:
            reading.error("W_UNKNOWN_KEY", key_node, f'"{key}" is not a key of {what} and is ignored', hint)


def check_keys(
    reading: ReadContext,
    node: Mapping,
    construct: Construct,
    code: str,
    *,
    what: str = "",
    handled: Collection[str] = (),
    elsewhere: Table[str, str] | None = None,
) -> None:
    """Note every key of `node` that the construct does not have in this dialect. `what` names the construct in messages
    if its own name would be ambiguous."""
    known = construct.names(reading.dialect.rules)
    closed = construct.unknown is Unknown.REFUSED
    what = what or construct.what
    known_keys(reading, node, known, code, what, closed=closed, handled=handled, elsewhere=elsewhere)


def known_block(
    reading: ReadContext,
    node: Node | None,
    construct: Construct,
    code: str,
    what: str,
    hint: str = "",
    elsewhere: Table[str, str] | None = None,
) -> Mapping | None:
    """`node` as a mapping with the keys of `construct`; other types and keys are noted."""
    block = mapping(reading, node, code, what, hint)
    if block is not None:
        check_keys(reading, block, construct, code, elsewhere=elsewhere)
    return block


def opening(node: Node) -> DiagnosticPosition:
    """The place of a construct as a whole, at its first key: for missing parts."""
    if isinstance(node, Mapping) and node.keys:
        return DiagnosticPosition(node.path, next(iter(node.keys.values())).span)
    return DiagnosticPosition(node.path, node.span)


def mapping(reading: ReadContext, node: Node | None, code: str, what: str, hint: str = "") -> Mapping | None:
    """`node` as a mapping; anything else but null or absence is noted."""
    if node is None or isinstance(node, Mapping):
        return node
    # YAML reads a key without a value as null; it counts as a missing key.
    if not (isinstance(node, Scalar) and node.value is None):
        reading.error(code, node, f"{what} must be a mapping, and this is {describe(node)}", hint)
    return None


def sequence(reading: ReadContext, node: Node | None, code: str, what: str, hint: str = "") -> Sequence | None:
    """`node` as a list; anything else but null or absence is noted."""
    if node is None or isinstance(node, Sequence):
        return node
    if not (isinstance(node, Scalar) and node.value is None):
        reading.error(code, node, f"{what} must be a list, and this is {describe(node)}", hint)
    return None


def text(reading: ReadContext, node: Node | None, code: str, what: str, hint: str = "") -> Scalar | None:
    """`node` as a scalar holding non-empty text; anything else is noted (absence is the caller's business)."""
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.strip():
        return node
    if node is not None:
        found = "empty" if isinstance(node, Scalar) and node.value in ("", None) else describe(node)
        reading.error(code, node, f"{what} must be text, and this is {found}", hint)
    return None


def option(spec: Mapping | None, key: str) -> Node | None:
    """The value of a key in a spec. Not `spec and …`: an empty spec is false, and the expression would return the spec
    itself."""
    return spec.get(key) if spec is not None else None


def boolean(reading: ReadContext, node: Node | None, code: str, what: str, default: bool = False) -> bool:
    if node is None:
        return default
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    reading.error(code, node, f"{what} must be true or false, and this is {describe(node)}")
    return default


def choice(
    reading: ReadContext, node: Node | None, allowed: Collection[str], code: str, what: str, hint: str = ""
) -> str | None:
    """One of the allowed words, or None with a note. A template is not a word: these are read before anything runs."""
    if node is None:
        return None
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value in allowed:
        return node.value
    found = f'"{node.value}"' if isinstance(node, Scalar) else describe(node)
    guess = hint or did_you_mean(
        str(node.value) if isinstance(node, Scalar) else "", allowed, f"write one of {', '.join(allowed)}"
    )
    reading.error(code, node, f"{what} must be one of {', '.join(allowed)}, and this is {found}", guess)
    return None


# YAML 1.1 reads these as booleans; YAML 1.2 reads them as text.
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def guard(reading: ReadContext, node: Node | None, what: str = "when") -> Scalar | None:
    """A condition: a boolean, a template, or the text true/false; bare text would always be true (VAL-16)."""
    if node is None:
        return None
    if not isinstance(node, Scalar) or (isinstance(node.value, int | float) and not isinstance(node.value, bool)):
        reading.error(
            "E_GUARD_LITERAL",
            node,
            f"{what} must be a template or a boolean, and this is {describe(node)}",
            'write "{{ … }}"',
        )
        return None
    if node.value is None:
        reading.error("E_GUARD_LITERAL", node, f"{what} is empty", 'write "{{ … }}", or leave it out')
        return None
    if (
        isinstance(node.value, str)
        and not is_template(node.value)
        and node.value.strip().lower() not in ("true", "false")
    ):
        reading.error(
            "E_GUARD_LITERAL",
            node,
            f"{what} is plain text and would always be true",
            _guard_hint(node.value.strip()),
        )
        return None
    if isinstance(node.value, str) and has_text_around(node.value):
        one = as_one_expression(node.value)
        hint = f'write "{template(one)}"' if one is not None else "write the whole condition between {{ and }}"
        message = f"{what} has text beside its {{{{ … }}}}, which makes it text that is always true"
        reading.error("E_GUARD_LITERAL", node, message, hint)
        return None
    return node


def _guard_hint(text: str) -> str:
    if text.lower() in _BOOLEAN_WORDS:
        return f'write {_BOOLEAN_WORDS[text.lower()]}: YAML 1.2 reads "{text}" as text'
    if text.startswith("{") and text.endswith("}"):
        # Single braces: the author meant a template, which has double ones.
        text = text[1:-1].strip()
    return f'write "{{{{ {text} }}}}"'


def is_templated(node: Node | None) -> bool:
    """Whether a node is text with a template in it, so that its value is only known at run time."""
    return isinstance(node, Scalar) and isinstance(node.value, str) and is_template(node.value)


def found_text(node: Node) -> str:
    """A found value for a message: the text itself when it is short, else what it is."""
    if isinstance(node, Scalar) and node.value is not None and len(str(node.value)) <= 40:
        return str(node.value).lower() if isinstance(node.value, bool) else f'"{node.value}"'
    return describe(node)


_TIMEOUT_PARTS = ("connect", "read", "total")


def timeout(reading: ReadContext, node: Node | None, what: str) -> None:
    """A task timeout: one duration, or one each for {connect, read} and the like (SPEC-05)."""
    if isinstance(node, Mapping):
        for key, place, value in node.items():
            if key not in _TIMEOUT_PARTS:
                hint = f"its parts are {', '.join(_TIMEOUT_PARTS)}; or write one duration: {what}: 30s"
                reading.error("E_DURATION", place, f'"{key}" is not a part of a timeout', hint)
            duration(reading, value, f"{what}.{key}")
    else:
        duration(reading, node, what)


def count(reading: ReadContext, node: Node | None, code: str, what: str, least: int = 1, hint: str = "") -> Node | None:
    """A whole number of at least `least`, or a template giving one."""
    if node is None or is_templated(node):
        return node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return node
    reading.error(
        code, node, f"{what} must be a whole number of at least {least}, and this is {found_text(node)}", hint
    )
    return None


def fixed_count(reading: ReadContext, node: Node | None, code: str, what: str) -> None:
    """A whole number of at least 1, and no template: at this place there is no scope to render one."""
    if node is not None and is_templated(node):
        reading.error(code, node, f"{what} must be a whole number of at least 1, and this is a template")
    else:
        count(reading, node, code, what)


def whole_number(reading: ReadContext, node: Node | None, code: str, what: str) -> Node | None:
    """Any whole number, or a template giving one."""
    if node is None or is_templated(node):
        return node
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node
    reading.error(code, node, f"{what} must be a whole number, and this is {found_text(node)}")
    return None


def plain_text(reading: ReadContext, node: Node | None, code: str, what: str) -> str | None:
    """Text for people (desc, version): any scalar, as text; None if it is null or missing."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    if isinstance(node, Scalar):
        return str(node.value)
    reading.error(code, node, f"{what} must be text, and this is {describe(node)}")
    return None


# Times as people write them in a document: lengths and moments, written out or as templates (TMR-03, HUM-04).

_MOMENT_FORM = "write it as 2025-01-31T06:00:00Z, with its offset"


def duration(reading: ReadContext, node: Node | None, what: str, code: str = "E_DURATION") -> Node | None:
    """`node` if it is a length of time or a template; anything else is noted."""
    if node is None or is_templated(node):
        return node
    if isinstance(node, Scalar):
        try:
            seconds(node.value)
            return node
        except ValueError:
            pass
    reading.error(code, opening(node), f"{what} must be a duration, and this is {_found_text(node)}", FORMS)
    return None


def moment(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment (RFC 3339) or a template; anything else is noted."""
    if node is None or is_templated(node) or is_moment(node):
        return node
    reading.error("E_DURATION", opening(node), f"{what} must be a time, and this is {_found_text(node)}", _MOMENT_FORM)
    return None


def duration_or_moment(reading: ReadContext, node: Node | None, what: str) -> Node | None:
    """`node` if it is a moment, a length of time or a template."""
    return node if node is not None and is_moment(node) else duration(reading, node, what)


def is_moment(node: Node) -> bool:
    """Whether this is a time with a date and an offset: one without an offset would mean another moment elsewhere."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or len(node.value) < len("2025-01-01T00:00Z"):
        return False
    try:
        return datetime.fromisoformat(node.value).tzinfo is not None
    except ValueError:
        return False


def _found_text(node: Node) -> str:
    return f'"{node.value}"' if isinstance(node, Scalar) and isinstance(node.value, str) else describe(node)
