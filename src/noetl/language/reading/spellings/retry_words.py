"""Other spellings of a `retry` block: `retry_when`, `interval`, `backoff_factor`, `max_retries`, lists of status codes,
and `retries` without a block. They are rewritten before the rows of `retries.py` read the block, in v10 and in v2-case.

Also the words of `spec.retry`, which a tool repeats by itself.
"""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.base.template_names import expression, paths, template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, data
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where

_BACKOFF_PARTS = {
    **dict.fromkeys(("type", "strategy", "mode", "kind"), "backoff"),
    **dict.fromkeys(("delay", "duration", "initial", "initial_delay", "interval", "base"), "delay"),
    **dict.fromkeys(("factor", "multiplier", "rate"), "backoff_multiplier"),
    **dict.fromkeys(("max", "max_delay", "cap", "max_duration"), "max_delay"),
}
_BLOCK_WORDS = dict.fromkeys(("retry_when", "retry_if", "cond", "condition", "if"), "when")
_BOUND_WORDS = {
    **dict.fromkeys(("interval", "interval_s", "wait", "delay_s", "delay_seconds", "retry_delay"), "delay"),
    **dict.fromkeys(("max_attempt", "tries", "max_tries"), "max_attempts"),
    **dict.fromkeys(("until", "stop_if"), "stop_when"),
    **dict.fromkeys(("initial_delay_s", "initial_delay_seconds"), "initial_delay"),
    **dict.fromkeys(("max_delay_s", "max_delay_seconds", "max_interval"), "max_delay"),
    **dict.fromkeys(("backoff_factor", "backoff_rate", "multiplier"), "backoff_multiplier"),
}
_STATUS_WORDS = ("status_codes", "statuses", "on", "retry_on", "on_status", "retryable_status_codes", "retry_on_status")
_MODE_WORDS = ("type", "strategy", "backoff_type", "backoff_strategy")
_MODES = {
    **dict.fromkeys(("none", "constant", "fixed"), "none"),
    **{word: word for word in ("linear", "exponential")},
}
_RETRIES = ("max_retries", "retries")
_DEFAULT_ATTEMPTS = 3  # the first call included, as `noetl migrate` gives a retry without a bound
# Kinds that have an input `retries`: another system repeats what it was given.
COUNTING_KINDS = ("dask", "ray")
_BESIDE_WHEN = ("when", "then", "spec", "desc")
_RESPONSE_NAMES = ("response", "result", "this")


def _name_words(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`retry` of a step, or of a task of v10, in the words that its readers know."""
    node = _gather_count(node, rewriting)
    retry = node.get("retry")
    count = retry.value if isinstance(retry, Scalar) else None
    if isinstance(retry, Scalar) and isinstance(count, bool):
        return _switched(node, retry, rewriting)
    if isinstance(retry, Scalar) and isinstance(count, int) and not isinstance(count, bool) and count > 0:
        rewriting.note(node.keys["retry"], "retry as a number", "retry: {max_attempts: …}")
        return model.with_value(node, "retry", model.made_mapping([("max_attempts", retry)], retry))
    if isinstance(retry, Mapping):
        return model.with_value(node, "retry", _policy(retry, rewriting))
    if isinstance(retry, Sequence):
        items = [_policy_entry(item, rewriting) if isinstance(item, Mapping) else item for item in retry]
        return model.with_value(node, "retry", model.with_items(retry, items))
    return node


def _switched(node: Mapping, retry: Scalar, rewriting: Rewriting) -> Mapping:
    """`retry: true`, which does not say how often, and `retry: false`."""
    if not retry.value:
        rewriting.note(node.keys["retry"], "retry: false", "a step or task without retry")
        return model.without_keys(node, "retry")
    bounds = model.made_mapping([("max_attempts", model.made_text(_DEFAULT_ATTEMPTS, retry))], retry)
    rewriting.note(node.keys["retry"], "retry: true", f"retry: {{max_attempts: {_DEFAULT_ATTEMPTS}}}")
    return model.with_value(node, "retry", bounds)


def _gather_count(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`retries: 3` with `retry_delay: 5` beside it, which count and space the calls after the first one."""
    word = next((key for key in _RETRIES if key in node), None)
    count = data(node.values[word]) if word is not None else None
    kind = node.get("kind")
    if isinstance(kind, Scalar) and kind.value in COUNTING_KINDS:
        return node
    if word is None or "retry" in node or not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return node
    rewriting.note(node.keys[word], f'"{word}" of a step or task', "retry: {max_attempts: …}")
    bounds: list[tuple[str, Node]] = [("max_retries", node.values[word])]
    delay = node.get("retry_delay")
    if delay is not None:
        bounds += [("delay", delay), ("backoff", model.made_text("none", delay))]
    block = model.made_mapping(bounds, node.values[word])
    rest = model.without_keys(model.with_key(node, word, "retry"), "retry_delay")
    return model.with_value(rest, "retry", block)


def _policy_entry(node: Mapping, rewriting: Rewriting) -> Mapping:
    """One entry of a list: `{when, then}`, where bounds next to `when` move under `then`."""
    node = model.renames("a retry", _BLOCK_WORDS)(node, rewriting)
    beside = [key for key in node.values if key not in _BESIDE_WHEN]
    if beside and "then" not in node:
        rewriting.note(node.keys[beside[0]], "bounds of a retry beside when", "then: {max_attempts: …}")
        held = model.only_keys(node, *beside)
        node = model.with_value(model.without_keys(node, *beside), "then", held, node.keys[beside[0]])
    then = node.get("then")
    return model.with_value(node, "then", _policy(then, rewriting)) if isinstance(then, Mapping) else node


def _policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    node = _open_backoff(node, rewriting)
    node = _name_backoff(model.renames("a retry", {**_BLOCK_WORDS, **_BOUND_WORDS})(node, rewriting), rewriting)
    return _stop_condition(_status_condition(_count_retries(node, rewriting), rewriting), rewriting)


def _name_backoff(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`type: exponential`: how the delay grows."""
    word = next((key for key in _MODE_WORDS if key in node), None)
    mode = data(node.values[word]) if word is not None else None
    if word is None or "backoff" in node or mode not in _MODES:
        return node
    rewriting.note(node.keys[word], f'"{word}" of a retry', '"backoff"')
    node = model.with_key(node, word, "backoff")
    plain = _MODES[str(mode)]
    return node if plain == mode else model.with_value(node, "backoff", model.made_text(plain, node.keys["backoff"]))


def _open_backoff(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`backoff: {type: exponential, delay: 2, factor: 2}` as the keys of the retry itself."""
    held = node.get("backoff")
    if not isinstance(held, Mapping) or not held.values.keys() <= _BACKOFF_PARTS.keys():
        return node
    found = [(_BACKOFF_PARTS[key], value) for key, value in held.values.items()]
    rest = model.without_keys(node, "backoff")
    if len(dict(found)) < len(found) or any(name in rest for name, _ in found):
        return node
    rewriting.note(node.keys["backoff"], "backoff as a mapping", "backoff, delay and max_delay of the retry")
    names = dict(found)
    # A mode determines the factor: a written factor could contradict it.
    if "backoff" in names and "backoff_multiplier" in names and data(names["backoff_multiplier"]) in (1, 2):
        names.pop("backoff_multiplier")
    for name, value in names.items():
        rest = model.with_value(rest, name, value, held.keys[next(k for k, v in held.values.items() if v is value)])
    return rest


def _count_retries(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`max_retries` counts the calls after the first one."""
    for key in _RETRIES:
        value = data(node.values[key]) if key in node else None
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and not {"max_attempts", "attempts"} & node.keys.keys()
        ):
            if not node.keys[key].made:  # a key that another row made has its note there
                rewriting.note(node.keys[key], f'"{key}: {value}" of a retry', f"max_attempts: {value + 1}")
            attempts = model.made_text(value + 1, node.values[key])
            node = model.with_value(model.without_keys(node, key), "max_attempts", attempts, node.keys[key])
    return node


def _status_condition(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A list of status codes is the condition that the call failed with one of them."""
    for key in _STATUS_WORDS:
        codes = data(node.values[key]) if key in node else None
        if "when" not in node and isinstance(codes, list) and codes and all(isinstance(one, int) for one in codes):
            rewriting.note(node.keys[key], f'"{key}" of a retry', "when: {{ error.status in […] }}")
            text = f"{{{{ error.status in {codes} }}}}"
            node = model.with_value(
                model.without_keys(node, key), "when", model.made_text(text, node.values[key]), node.keys[key]
            )
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
    text = model.made_text(template(f"{first}not ({stop})"), key)
    return model.with_value(model.without_keys(node, "stop_when"), "when", text, key)


def _condition(node: Node | None) -> str | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not is_template(node.value):
        return None
    return expression(node.value)


_OLDER = (
    "`retry: {retry_when, stop_when, until, interval, backoff_factor, type, max_retries, status_codes}`, `retry: 3`, "
    "`retry: true`, `retries: 3` with `retry_delay`"
)


_INNER_WORDS = {
    **dict.fromkeys(("max_attempts", "count", "limit", "times"), "attempts"),
    **dict.fromkeys(("initial_delay", "interval", "wait", "delay_s"), "delay"),
    **dict.fromkeys(("mode", "strategy", "type"), "backoff"),
}


def _name_inner(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`spec.retry` of a step, a loop, a task or all tasks: internal retries of a tool."""
    spec = node.get("spec")
    if isinstance(spec, Mapping):
        spec = _counted_inner(spec, rewriting)
        node = model.with_value(node, "spec", spec)
    held = spec.get("retry") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(held, Mapping):
        return node
    changed = model.renames("spec.retry", _INNER_WORDS)(_open_backoff(held, rewriting), rewriting)
    for key in _RETRIES:
        count = data(changed.values[key]) if key in changed else None
        if isinstance(count, int) and not isinstance(count, bool) and "attempts" not in changed:
            rewriting.note(changed.keys[key], f'"{key}: {count}" of spec.retry', f"attempts: {count + 1}")
            attempts = model.made_text(count + 1, changed.values[key])
            changed = model.with_value(model.with_key(changed, key, "attempts"), "attempts", attempts)
    word = changed.get("backoff")
    if isinstance(word, Scalar) and word.value in ("fixed", "constant"):
        changed = model.with_value(changed, "backoff", model.made_text("none", word))
    return model.with_value(node, "spec", model.with_value(spec, "retry", changed))


def _counted_inner(spec: Mapping, rewriting: Rewriting) -> Mapping:
    """`retries: 3` in a spec, which counts the calls after the first one."""
    word = next((key for key in _RETRIES if key in spec), None)
    count = data(spec.values[word]) if word is not None else None
    if word is None or "retry" in spec or not isinstance(count, int) or isinstance(count, bool) or count < 0:
        return spec
    bounds: list[tuple[str, Node]] = [("attempts", model.made_text(count + 1, spec.values[word]))]
    delay = spec.get("retry_delay")
    if delay is not None:
        bounds.append(("delay", delay))
    rewriting.note(spec.keys[word], f'"{word}: {count}" of a spec', f"retry: {{attempts: {count + 1}}}")
    rest = model.without_keys(model.with_key(spec, word, "retry"), "retry_delay")
    return model.with_value(rest, "retry", model.made_mapping(bounds, spec.values[word]))


SPELLINGS = (
    *(
        Spelling(
            id=f"{where}-spec-retry",
            where=where,
            older=f"`spec.retry: {{max_attempts, initial_delay, mode}}`, `spec.retries: 3` of {what}",
            canonical="`spec.retry: {attempts, delay, backoff}`",
            dialects=model.EVERYWHERE,
            rewrite=_name_inner,
        )
        for where, what in (
            (Where.TASK, "a task"),
            (Where.STEP, "a step"),
            (Where.LOOP, "a loop"),
            (Where.EXECUTOR, "the executor"),
        )
    ),
    Spelling(
        id="step-retry-words",
        where=Where.STEP,
        older=f"{_OLDER} on a step",
        canonical="`when`, `attempts`, `delay`, `backoff` of a rule with `do: retry`",
        dialects=(model.V2_CASE, model.V10),
        rewrite=_name_words,
    ),
    Spelling(
        id="task-retry-words",
        where=Where.TASK,
        older=f"{_OLDER} on a task",
        canonical="`when`, `attempts`, `delay`, `backoff` of a rule with `do: retry`",
        dialects=(model.V10,),
        rewrite=_name_words,
    ),
)
