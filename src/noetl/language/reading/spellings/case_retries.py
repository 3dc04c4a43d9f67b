"""A retry in a case rule of v2-case: a rule on a failed call that only tries again is the retry of its step."""

from __future__ import annotations

import re

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where
from noetl.language.reading.spellings.trees import made_text, with_items, with_key, with_value

_FAILED_CALL = re.compile(
    r"""\{\{\s*event\.name\s*==\s*["']call\.error["'](?:\s+and\s+(?P<rest>.*?))?\s*\}\}""", re.DOTALL
)


def _move_retry(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The first rule, where it asks for `call.error` and does nothing but retry."""
    case = node.get("case")
    rule = case.items[0] if isinstance(case, Sequence) and len(case) else None
    retry = _only_retry(rule.get("then")) if isinstance(rule, Mapping) else None
    when = rule.get("when") if isinstance(rule, Mapping) else None
    asked = _FAILED_CALL.fullmatch(str(when.value).strip()) if isinstance(when, Scalar) else None
    if not isinstance(case, Sequence) or retry is None or asked is None or "retry" in node or "when" in retry:
        return node
    rest = asked["rest"]
    if rest and (" or " in rest or "event." in rest):
        return node
    rewriting.note(case.items[0], "a rule that only retries", "retry of the step")
    if rest and isinstance(when, Scalar):
        retry = with_value(retry, "when", made_text(f"{{{{ {rest} }}}}", when))
    if len(case) == 1:
        return with_value(with_key(node, "case", "retry"), "retry", retry)
    return with_value(with_value(node, "case", with_items(case, case.items[1:])), "retry", retry)


def _only_retry(then: Node | None) -> Mapping | None:
    if isinstance(then, Sequence) and len(then) == 1:
        then = then.items[0]
    held = then.get("retry") if isinstance(then, Mapping) and len(then) == 1 else None
    return held if isinstance(held, Mapping) and "then" not in held else None


_STEP = (
    '- step: start\n  tool: {kind: http, url: "http://localhost/"}\n  %s\n  next: a\n- step: a\n  tool: {kind: noop}\n'
)
_RETRY = "max_attempts: 2, delay: 1"

SPELLINGS = (
    Spelling(
        id="case-rule-retry",
        where=Where.STEP,
        older="`case: [{when: \"{{ event.name == 'call.error' }}\", then: {retry: {…}}}]`",
        canonical="a rule with `do: retry`",
        dialects=(V2_CASE,),
        before=_STEP % f"case: [{{when: \"{{{{ event.name == 'call.error' }}}}\", then: {{retry: {{{_RETRY}}}}}}}]",
        after=_STEP % f"retry: {{{_RETRY}}}",
        rewrite=_move_retry,
    ),
)
