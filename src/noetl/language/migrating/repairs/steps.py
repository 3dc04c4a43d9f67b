"""Repairs of steps: `pipe`, inputs of a task beside its step, `policy`, `on_error` and `sink`. Also of retries and
loops that lack a bound or a name."""

from __future__ import annotations

from noetl.base.template_names import expression
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting
from noetl.language.v2_case.port import is_nothing

# The number counts every attempt, including the first.
_ATTEMPTS = 3
_ITERATOR = "item"
_WORDS = {
    **dict.fromkeys(("constant", "static", "flat", "fixed_delay"), "none"),
    **dict.fromkeys(("exp", "expo", "exponential_backoff", "doubling", "geometric"), "exponential"),
    **dict.fromkeys(("incremental", "arithmetic", "linear_backoff"), "linear"),
}
# v2-case calls a constant delay `fixed`.
_CASE_WORDS = {"none": "fixed"}
_QUADRATIC = ("quadratic", "square", "squared")
_LOOP_WORDS = {"collection": "in", "element": "iterator"}


def name_pipe(node: Mapping, rewriting: Rewriting) -> Mapping:
    if "pipe" in node and "tool" not in node:
        rewriting.note(node.keys["pipe"], '"pipe"', '"tool"')
        node = model.with_key(node, "pipe", "tool")
    return node


def add_noop(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A step that only ends a path says so with a task that does nothing; one called `end` needs none."""
    name = node.get("step")
    if not isinstance(name, Scalar) or name.value == "end" or not is_nothing(node):
        return node
    rewriting.note(name, "a step that does nothing", "tool: {kind: noop}")
    return model.with_value(node, "tool", model.made_mapping([("kind", model.made_text("noop", name))], name), name)


def move_policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    spec = node.get("spec")
    if "policy" in node and ("kind" in node or "step" in node) and not (isinstance(spec, Mapping) and "policy" in spec):
        rewriting.note(node.keys["policy"], '"policy"', "spec.policy")
        node = model.moved_into(node, "spec", "policy", "policy")
    return node


def list_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`spec.policy` of a task as the list of its rules."""
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    if "kind" not in node or not isinstance(spec, Mapping) or not isinstance(policy, Sequence):
        return node
    rewriting.note(spec.keys["policy"], "a policy as a list", "policy: {rules: […]}")
    return model.with_value(
        node, "spec", model.with_value(spec, "policy", model.made_mapping([("rules", policy)], policy))
    )


def write_failure_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on_error: continue` lets the step fail and go on."""
    spec = node.get("spec")
    mode = spec.get("on_error") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(mode, Scalar) or mode.value not in ("fail", "continue"):
        return node
    rewriting.note(mode, f"spec.on_error: {mode.value}", "spec.policy.failure.mode")
    kept = model.without_keys(spec, "on_error")
    if mode.value == "continue":
        failure = model.made_mapping([("mode", model.made_text("best_effort", mode))], mode)
        kept = model.with_path(kept, ("policy", "failure"), failure, mode)
    return model.with_value(node, "spec", kept) if len(kept) else model.without_keys(node, "spec")


def write_sink(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`sink: {tool, args}` as the last task, which reads the result before it."""
    sink = node.get("sink")
    inner = sink.get("tool") if isinstance(sink, Mapping) else None
    if not isinstance(sink, Mapping) or not isinstance(inner, Mapping) or set(sink.values) - {"tool", "args", "desc"}:
        return node
    key = node.keys["sink"]
    rewriting.note(key, '"sink"', "a task that stores, at the end of tool")
    task = inner
    if "args" in sink:
        task = model.with_value(task, "args", sink.values["args"], sink.keys["args"])
    task = _named(task, f"{_step_name(node)}_sink", key)
    task_names = {"result": "_prev", "response": "_prev", "this.data": "_prev", "vars": "ctx"}
    written = model.with_names(task, task_names)
    tasks = [*task_list(node), written]
    return model.with_value(
        model.without_keys(node, "sink"), "tool", model.made_list(tasks, node.get("tool") or sink), key
    )


def task_list(node: Mapping) -> list[Node]:
    """The tasks of a step as a list; a single one gets the name that it has by itself."""
    tool = node.get("tool")
    if isinstance(tool, Sequence):
        return list(tool)
    if isinstance(tool, Mapping):
        return [_named(tool, f"{_step_name(node)}_task", node.keys["tool"])]
    return []


def _named(task: Mapping, name: str, at: Scalar) -> Mapping:
    if "name" in task:
        return task
    keys = {"name": model.made_text("name", at), **task.keys}
    values: dict[str, Node] = {"name": model.made_text(name, at), **task.values}
    return Mapping(keys, values, task.span, task.path, made=True)


def _step_name(node: Mapping) -> str:
    name = node.get("step")
    return str(name.value) if isinstance(name, Scalar) else "step"


# Repairs of retries and loops that lack a bound or a name, or say how a delay grows in a word of their own.


def bound_retry(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`do: retry` without `attempts`."""
    word = node.get("do")
    if not isinstance(word, Scalar) or word.value != "retry" or "attempts" in node or "max_attempts" in node:
        return node
    return _with_bound(node, "attempts", word, rewriting)


def bound_policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A retry policy of v2-case without `max_attempts`."""
    if {"max_attempts", "attempts", "then"} & node.values.keys() or not len(node):
        return node
    return _with_bound(node, "max_attempts", next(iter(node.keys.values())), rewriting)


def _with_bound(node: Mapping, key: str, at: Scalar, rewriting: Rewriting) -> Mapping:
    rewriting.note(at, "a retry without a bound", f"{key}: {_ATTEMPTS}")
    return model.with_value(node, key, model.made_text(_ATTEMPTS, at), at)


def name_backoff(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`backoff` of a retry in another word; a delay that grows with the square of the runs is a template."""
    word = node.get("backoff")
    if not isinstance(word, Scalar):
        return node
    if word.value in _WORDS:
        rewriting.note(word, f"backoff: {word.value}", f"backoff: {_WORDS[word.value]}")
        return model.with_value(node, "backoff", model.made_text(_WORDS[word.value], word))
    return _with_growing_delay(node, "backoff", "delay", "_attempt", rewriting) if word.value in _QUADRATIC else node


def name_mode(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`spec.mode` of a retry of v2-case in another word."""
    spec = node.get("spec")
    word = spec.get("mode") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(word, Scalar):
        return node
    if word.value in _WORDS:
        new = _CASE_WORDS.get(_WORDS[word.value], _WORDS[word.value])
        rewriting.note(word, f"mode: {word.value}", f"mode: {new}")
        return model.with_value(node, "spec", model.with_value(spec, "mode", model.made_text(new, word)))
    if word.value not in _QUADRATIC:
        return node
    delay = "delay" if "delay" in node else "initial_delay"
    flat = model.with_value(node, "backoff", word, spec.keys["mode"])
    squared = _with_growing_delay(flat, "backoff", delay, "_retry.count", rewriting)
    if squared is flat:
        return node
    return model.with_value(squared, "spec", model.with_value(spec, "mode", model.made_text("fixed", word)))


def _with_growing_delay(node: Mapping, key: str, delay: str, runs: str, rewriting: Rewriting) -> Mapping:
    """`node` with the growth written out in its delay; without a delay nothing grows."""
    word, first = node.keys[key], node.get(delay)
    if first is None:
        rewriting.note(word, "the growth of no delay", "nothing")
        return model.without_keys(node, key)
    if not isinstance(first, Scalar) or isinstance(first.value, bool):
        return node
    number = expression(first.value) if isinstance(first.value, str) else str(first.value)
    # A duration as text cannot be multiplied.
    if number is None:
        return node
    text = f"{{{{ {number} * {runs} ** 2 }}}}"
    rewriting.note(word, "a delay that grows with the square of the runs", f"delay: {text}")
    return model.with_value(model.without_keys(node, key), delay, model.made_text(text, first))


def name_iterator(node: Mapping, rewriting: Rewriting) -> Mapping:
    """A loop over something whose elements have no name; and one in the words of two spellings."""
    if {"in", "collection"} <= node.values.keys() or {"iterator", "element"} <= node.values.keys():
        return node
    if rewriting.dialect is Dialect.V2_CASE and _is_mixed(node):
        for older, word in _LOOP_WORDS.items():
            if older in node:
                rewriting.note(node.keys[older], f"loop.{older}", f"loop.{word}")
                node = model.with_key(node, older, word)
    if {"in", "collection"} & node.values.keys() and not {"iterator", "element"} & node.values.keys():
        key = node.keys["in" if "in" in node else "collection"]
        word = "iterator" if "in" in node else "element"
        rewriting.note(key, "a loop without a name for its elements", f"{word}: {_ITERATOR}")
        node = model.with_value(node, word, model.made_text(_ITERATOR, key), key)
    return node


def _is_mixed(node: Mapping) -> bool:
    return bool({"collection", "element"} & node.values.keys()) and bool(
        {"in", "iterator", "mode"} & node.values.keys()
    )
