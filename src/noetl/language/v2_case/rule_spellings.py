"""Rules of v2-case in other words: one rule without a list, actions beside `when`, `goto`, `default`, flat sinks."""

from __future__ import annotations

import re

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import V2_CASE, Rewriting, Spelling, Where, renames

_ACTIONS = ("sink", "set", "retry", "next", "goto", "jump", "set_ctx", "set_vars", "vars", "step")
_WORDS = {"goto": "next", "jump": "next", "step": "next", **dict.fromkeys(("set_ctx", "set_vars", "vars"), "set")}
_STORES = ("ctx", "vars")
_ERROR_NAMES = {"error": "response.error", "status_code": "response.status_code"}


def _list_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`case` with one rule, and sinks of the step."""
    case = node.get("case")
    if isinstance(case, Mapping) and ("when" in case or "then" in case or "else" in case):
        rewriting.note(node.keys["case"], "case as one rule", "a list of rules")
        node = model.with_value(node, "case", model.made_list([case], case))
    return _nest_sink(node, rewriting)


def _name_error(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`error` and `status_code` of a call, in the rules of its step; unless a step is called so."""
    names = {name: new for name, new in _ERROR_NAMES.items() if name not in rewriting.step_names}
    case = node.get("case")
    changed = model.with_names(case, names) if isinstance(case, Sequence) else case
    if case is None or changed is None or changed is case:
        return node
    rewriting.note(node.keys["case"], "error and status_code in a rule", "response.error and response.status_code")
    return model.with_value(node, "case", changed)


def _write_rule(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A rule as `{when, then}` or `{else}`."""
    if "when" not in node and "else" not in node:
        node = renames("a rule", {"default": "else", "otherwise": "else"})(node, rewriting)
    node = _unwrapped_else(node, rewriting)
    beside = [key for key in node.values if key in _ACTIONS]
    if "when" in node and "then" not in node and beside:
        rewriting.note(node.keys[beside[0]], f'"{beside[0]}" beside when', f"then: {{{beside[0]}: …}}")
        then = model.only_keys(node, *beside)
        node = model.with_value(model.without_keys(node, *beside), "then", then, node.keys[beside[0]])
    for key in ("then", "else"):
        target = node.get(key)
        if isinstance(target, Scalar) and isinstance(target.value, str):
            rewriting.note(node.keys[key], f"{key} as a name", f"{key}: {{next: …}}")
            node = model.with_value(node, key, model.made_mapping([("next", target)], target))
    return node


def _unwrapped_else(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`else: {then: …}`, and `else: true` beside `then`."""
    held, then = node.get("else"), node.get("then")
    if isinstance(held, Mapping) and len(held) == 1 and "then" in held:
        rewriting.note(held.keys["then"], '"then" within else', "else: {…}")
        return model.with_value(node, "else", held.values["then"])
    if isinstance(held, Scalar) and held.value in (True, None) and then is not None and "when" not in node:
        rewriting.note(node.keys["then"], '"then" beside else', "else: {…}")
        return model.with_value(model.without_keys(node, "then"), "else", then)
    return node


def _name_actions(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The actions of a rule: `goto`, and the words of other dialects for `set`."""
    tasks = [key for key, value in node.values.items() if isinstance(value, Mapping) and "tool" in value]
    node = renames("a rule", {key: word for key, word in _WORDS.items() if key not in tasks})(node, rewriting)
    written = node.get("set")
    scopes = [key for key in written.values if key in _STORES] if isinstance(written, Mapping) else []
    for scope in scopes:
        inner = written.get(scope) if isinstance(written, Mapping) else None
        if isinstance(written, Mapping) and isinstance(inner, Mapping):
            rewriting.note(written.keys[scope], f'"{scope}" within set', "the names themselves")
            written = model.merged(model.without_keys(written, scope), inner, written)
            node = model.with_value(node, "set", written)
    if isinstance(written, Mapping):
        node = model.with_value(node, "set", without_scopes(written, rewriting))
    return _nest_sink(node, rewriting)


def without_scopes(written: Mapping, rewriting: Rewriting) -> Mapping:
    """`set: {ctx.name: …}`: both scopes are where `set` writes to by itself."""
    for key in list(written.values):
        scope, _, name = key.partition(".")
        if scope in _STORES and name and name not in written:
            rewriting.note(written.keys[key], f'"{key}" of set', f'"{name}"')
            written = model.with_key(written, key, name)
    return written


def _nest_sink(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A sink written as its own tool, or with `data` for `args`."""
    sink = node.get("sink")
    if not isinstance(sink, Mapping):
        return node
    if "kind" in sink and "tool" not in sink:
        rewriting.note(sink.keys["kind"], "a sink with the keys of its tool", "sink: {tool: {kind: …}, args: …}")
        outside = [key for key in sink.values if key in ("args", "desc")]
        inside = model.without_keys(sink, *outside)
        entries: list[tuple[str, Node]] = [("tool", inside), *((key, sink.values[key]) for key in outside)]
        return model.with_value(node, "sink", model.made_mapping(entries, sink))
    for key in ("data", "payload", "with"):
        if key in sink and "args" not in sink and isinstance(sink.get("tool"), Mapping):
            rewriting.note(sink.keys[key], f'"{key}" of a sink', '"args"')
            return model.with_value(node, "sink", model.with_key(sink, key, "args"))
    return node


SPELLINGS = (
    Spelling(
        id="case-one-rule",
        where=Where.STEP,
        older="`case: {when, then}`; `sink: {kind: …}` without `tool`, `sink.data`",
        canonical="arcs with `when`; a task that stores",
        dialects=(V2_CASE,),
        rewrite=_list_rules,
    ),
    Spelling(
        id="case-error-names",
        where=Where.STEP,
        older="`{{ error.status }}`, `{{ status_code }}` in a case rule",
        canonical="`{{ event.error.status }}` in an arc",
        dialects=(V2_CASE,),
        rewrite=_name_error,
    ),
    Spelling(
        id="case-rule-shape",
        where=Where.RULE,
        older="`{when, next}` without `then`, `then: name`, `default: …`, `else: {then: …}`",
        canonical="`next: {arcs: [{step, when}]}`",
        dialects=(V2_CASE,),
        rewrite=_write_rule,
    ),
    Spelling(
        id="case-action-words",
        where=Where.ACTION,
        older="`goto`, `jump`, `set_ctx`, `set_vars`, `vars`, `set: {ctx: {…}}`, `set: {ctx.name: …}` in `then`",
        canonical="`next.arcs`, `set_ctx`",
        dialects=(V2_CASE,),
        rewrite=_name_actions,
    ),
)


# A retry in a case rule of v2-case: a rule on a failed call that only tries again is the retry of its step.

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
        retry = model.with_value(retry, "when", model.made_text(f"{{{{ {rest} }}}}", when))
    if len(case) == 1:
        return model.with_value(model.with_key(node, "case", "retry"), "retry", retry)
    return model.with_value(model.with_value(node, "case", model.with_items(case, case.items[1:])), "retry", retry)


def _only_retry(then: Node | None) -> Mapping | None:
    if isinstance(then, Sequence) and len(then) == 1:
        then = then.items[0]
    held = then.get("retry") if isinstance(then, Mapping) and len(then) == 1 else None
    return held if isinstance(held, Mapping) and "then" not in held else None


RETRY_SPELLINGS = (
    Spelling(
        id="case-rule-retry",
        where=Where.STEP,
        older="`case: [{when: \"{{ event.name == 'call.error' }}\", then: {retry: {…}}}]`",
        canonical="a rule with `do: retry`",
        dialects=(V2_CASE,),
        rewrite=_move_retry,
    ),
)
