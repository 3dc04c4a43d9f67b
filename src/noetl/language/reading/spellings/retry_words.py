"""Other words of a `retry` block: `retry_when`, `interval`, `backoff_factor`, `max_retries`, lists of status codes.

They are named before the rows of `retries.py` read the block, in v10 as in v2-case.
"""

from __future__ import annotations

from noetl.base.source import is_template
from noetl.base.template_names import expression, paths, template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data
from noetl.language.reading.spellings.model import (
    V2_CASE,
    V10,
    Rewriting,
    Spelling,
    Where,
    made_mapping,
    made_text,
    renames,
    with_items,
    with_value,
    without_keys,
)

_BLOCK_WORDS = dict.fromkeys(("retry_when", "retry_if", "cond", "condition", "if"), "when")
_BOUND_WORDS = {
    **dict.fromkeys(("interval", "interval_s", "wait", "delay_s", "delay_seconds"), "delay"),
    **dict.fromkeys(("initial_delay_s", "initial_delay_seconds"), "initial_delay"),
    **dict.fromkeys(("max_delay_s", "max_delay_seconds", "max_interval"), "max_delay"),
    **dict.fromkeys(("backoff_factor", "backoff_rate", "multiplier"), "backoff_multiplier"),
}
_STATUS_WORDS = ("status_codes", "retry_on", "on_status", "retryable_status_codes", "retry_on_status")
_RETRIES = ("max_retries", "retries")
_BESIDE_WHEN = ("when", "then", "spec", "desc")
_RESPONSE_NAMES = ("response", "result", "this")


def _name_words(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`retry` of a step, or of a task of v10, in the words that its readers know."""
    retry = node.get("retry")
    count = retry.value if isinstance(retry, Scalar) else None
    if isinstance(retry, Scalar) and isinstance(count, int) and not isinstance(count, bool) and count > 0:
        rewriting.note(node.keys["retry"], "retry as a number", "retry: {max_attempts: …}")
        return with_value(node, "retry", made_mapping([("max_attempts", retry)], retry))
    if isinstance(retry, Mapping):
        return with_value(node, "retry", _policy(retry, rewriting))
    if isinstance(retry, Sequence):
        items = [_listed(item, rewriting) if isinstance(item, Mapping) else item for item in retry]
        return with_value(node, "retry", with_items(retry, items))
    return node


def _listed(node: Mapping, rewriting: Rewriting) -> Mapping:
    """One entry of a list: `{when, then}`, where bounds beside `when` stand under `then`."""
    node = renames("a retry", _BLOCK_WORDS)(node, rewriting)
    beside = [key for key in node.values if key not in _BESIDE_WHEN]
    if beside and "then" not in node:
        rewriting.note(node.keys[beside[0]], "bounds of a retry beside when", "then: {max_attempts: …}")
        held = Mapping(
            {key: node.keys[key] for key in beside},
            {key: node.values[key] for key in beside},
            node.span,
            node.path,
            True,
        )
        node = with_value(without_keys(node, *beside), "then", held, node.keys[beside[0]])
    then = node.get("then")
    return with_value(node, "then", _policy(then, rewriting)) if isinstance(then, Mapping) else node


def _policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    node = renames("a retry", {**_BLOCK_WORDS, **_BOUND_WORDS})(node, rewriting)
    return _stop_condition(_status_condition(_count_retries(node, rewriting), rewriting), rewriting)


def _count_retries(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`max_retries` counts the calls after the first one."""
    for key in _RETRIES:
        value = data(node.values[key]) if key in node else None
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and not {"max_attempts", "attempts"} & node.keys.keys()
        ):
            rewriting.note(node.keys[key], f'"{key}: {value}" of a retry', f"max_attempts: {value + 1}")
            attempts = made_text(value + 1, node.values[key])
            node = with_value(without_keys(node, key), "max_attempts", attempts, node.keys[key])
    return node


def _status_condition(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A list of status codes is the condition that the call failed with one of them."""
    for key in _STATUS_WORDS:
        codes = data(node.values[key]) if key in node else None
        if "when" not in node and isinstance(codes, list) and codes and all(isinstance(one, int) for one in codes):
            rewriting.note(node.keys[key], f'"{key}" of a retry', "when: {{ error.status in […] }}")
            text = f"{{{{ error.status in {codes} }}}}"
            node = with_value(without_keys(node, key), "when", made_text(text, node.values[key]), node.keys[key])
    return node


def _stop_condition(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`stop_when` ends what `when` repeats. Alone, it is about the response that it reads, or else about errors."""
    stop, other = _condition(node.get("stop_when")), _condition(node.get("when"))
    if stop is None or ("when" in node and other is None):
        return node
    key = node.keys["stop_when"]
    rewriting.note(key, '"stop_when" of a retry', "when: {{ not (…) }}")
    is_of_response = any(path[0] in _RESPONSE_NAMES for path in paths(template(stop)))
    first = f"({other}) and " if other is not None else "" if is_of_response else "error and "
    text = made_text(template(f"{first}not ({stop})"), key)
    return with_value(without_keys(node, "stop_when"), "when", text, key)


def _condition(node: Node | None) -> str | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not is_template(node.value):
        return None
    return expression(node.value)


_OLDER = "`retry: {retry_when, stop_when, interval, backoff_factor, max_retries, status_codes}`, `retry: 3`"

SPELLINGS = (
    Spelling(
        id="step-retry-words",
        where=Where.STEP,
        older=f"{_OLDER} on a step",
        canonical="`when`, `attempts`, `delay`, `backoff` of a rule with `do: retry`",
        dialects=(V2_CASE, V10),
        rewrite=_name_words,
    ),
    Spelling(
        id="task-retry-words",
        where=Where.TASK,
        older=f"{_OLDER} on a task",
        canonical="`when`, `attempts`, `delay`, `backoff` of a rule with `do: retry`",
        dialects=(V10,),
        rewrite=_name_words,
    ),
)
