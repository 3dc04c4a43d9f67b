"""v10-io: v10 with `input` for `args`, `set` for `set_ctx` and `set_iter`, `output` for the outcome.

Everything else is v10. These keys belong to a dialect of their own, so there is no note for each of them.
"""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence, inner
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import V2_EVAL, V10, V10_IO, Rewriting, Spelling, Where, renames
from noetl.language.reading.spellings.rules import with_writes

_ON_SUCCESS = "{{ outcome.status == 'success' }}"
_GOING_ON = ("continue", "break", "jump")
_ANYWHERE = {"input": "args"}
_IN_TASKS = {**_ANYWHERE, "output": "_prev"}
_IN_POLICIES = {**_ANYWHERE, "output": "outcome"}
_ON_STEPS = {**_ANYWHERE, "output.data": "event.result", "output.result": "event.result", "output": "event"}
_AFTER_TASK = ("set", "set_ctx", "set_iter", "output", "retry")
_AFTER_STEP = ("set", "set_ctx", "next")


def _name_outputs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`input` and `output` in the templates of a step, by their place."""
    for key, value in node.values.items():
        if key in ("tool", "compensate", "on_event"):
            node = model.with_value(node, key, _in_tasks(value))
        elif key == "retry":
            node = model.with_value(node, key, model.with_names(value, _IN_POLICIES))
        else:
            node = model.with_value(node, key, model.with_names(value, _ON_STEPS if key in _AFTER_STEP else _ANYWHERE))
    return node


def _in_tasks(node: Node) -> Node:
    if isinstance(node, Sequence):
        return model.with_items(node, [_in_tasks(item) for item in node])
    if not isinstance(node, Mapping):
        return model.with_names(node, _IN_TASKS)
    is_task = "kind" in node
    for key, value in node.values.items():
        if is_task and key == "code":
            continue  # never a template
        if key == "policy" or (is_task and key in _AFTER_TASK):
            node = model.with_value(node, key, model.with_names(value, _IN_POLICIES))
        elif is_task and key != "spec":
            node = model.with_value(node, key, model.with_names(value, _IN_TASKS))
        else:
            node = model.with_value(node, key, _in_tasks(value))
    return node


def _set_on_step(node: Mapping, rewriting: Rewriting) -> Mapping:
    written = node.get("set")
    return with_writes(node, written, rewriting) if isinstance(written, Mapping) else node


def _set_on_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The assignments of a successful task, as a part of its rules."""
    return with_task_writes(node, "set", _writes_of(node, rewriting))


def with_task_writes(node: Mapping, key: str, writes: list[tuple[str, Node]]) -> Mapping:
    """A task with `writes`, which was written under `key`, moved into its rules; the unchanged task if its rules have
    no place for them."""
    policy = inner(node, "spec", "policy")
    rules = inner(policy, "rules")
    if not writes or "kind" not in node or (policy is not None and not isinstance(rules, Sequence)):
        return node
    at = node.values[key]
    listed = (
        [_with_task_writes(rule, writes) for rule in rules] if isinstance(rules, Sequence) else [model.fail_rule(at)]
    )
    if not any(isinstance(rule, Mapping) and "else" in rule for rule in listed):
        then = model.made_mapping([("do", model.made_text("continue", at)), *writes], at)
        listed.append(model.made_mapping([("when", model.made_text(_ON_SUCCESS, at)), ("then", then)], at))
    return model.with_policy_rules(node, key, listed, at)


def _writes_of(node: Mapping, rewriting: Rewriting) -> list[tuple[str, Node]]:
    """`set` of a task as `set_ctx` and `set_iter`."""
    written = node.get("set")
    if not isinstance(written, Mapping):
        return []
    alone = with_writes(model.made_mapping([("set", written)], written), written, rewriting)
    return list(alone.values.items())


def _with_task_writes(rule: Node, writes: list[tuple[str, Node]]) -> Node:
    """A rule that continues after a success also sets what the task sets; its own values win."""
    if not isinstance(rule, Mapping):
        return rule
    held = rule.get("else")
    if isinstance(held, Mapping) and "then" in held:
        return model.with_value(
            rule, "else", model.with_value(held, "then", _merged_writes(held.values["then"], writes))
        )
    if isinstance(held, Mapping):
        return model.with_value(rule, "else", _merged_writes(held, writes))
    when = rule.get("when")
    about_errors = isinstance(when, Scalar) and "error" in str(when.value)
    if about_errors or "then" not in rule:
        return rule
    return model.with_value(rule, "then", _merged_writes(rule.values["then"], writes))


def _merged_writes(then: Node, writes: list[tuple[str, Node]]) -> Node:
    do = then.get("do") if isinstance(then, Mapping) else None
    if not isinstance(then, Mapping) or (isinstance(do, Scalar) and do.value not in _GOING_ON):
        return then
    for target, values in writes:
        own = then.get(target)
        if isinstance(own, Mapping) and isinstance(values, Mapping):
            values = model.merged(values, own, own)
        then = model.with_value(then, target, values)
    return then


def _name_policy(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`output: {rules: […]}`, or the rules alone: the policy for the outcome."""
    written = node.get("output")
    rules = written.get("rules") if isinstance(written, Mapping) else written
    spec = node.get("spec")
    if not isinstance(rules, Sequence) or (isinstance(spec, Mapping) and "policy" in spec):
        return node
    block = written if isinstance(written, Mapping) else model.made_mapping([("rules", rules)], rules)
    outer = spec if isinstance(spec, Mapping) else model.made_mapping((), rules)
    return model.with_value(model.without_keys(node, "output"), "spec", model.with_value(outer, "policy", block))


# The example of a task that writes what it gave, as rules.


# `set_ctx` and `set_iter` on a task: its assignments after success, as a part of its rules.
_KEYS = ("set_ctx", "set_iter")


def _write_in_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    for key in _KEYS:
        written = node.get(key)
        if "kind" not in node or not isinstance(written, Mapping):
            continue
        changed = with_task_writes(node, key, [(key, written)])
        if changed is not node:
            rewriting.note(node.keys[key], f'"{key}" of a task', "a rule for success in spec.policy.rules")
        node = changed
    return node


def _write_in_eval(node: Mapping, rewriting: Rewriting) -> Mapping:
    """v2-eval: one more entry, before the `else`; the mapping under a label is a task."""
    if "kind" not in node:
        inside = next(iter(node.values.values())) if len(node) == 1 else None
        if isinstance(inside, Mapping) and "kind" in inside:
            return model.with_value(node, next(iter(node.values)), _write_in_eval(inside, rewriting))
        return node
    written = [(key, value) for key in _KEYS if isinstance(value := node.get(key), Mapping)]
    entries = node.get("eval")
    if not written or not (entries is None or isinstance(entries, Sequence)):
        return node
    key, at = written[0]
    rewriting.note(node.keys[key], f'"{key}" of a task', "an entry for success in eval")
    listed: list[Node] = list(entries) if isinstance(entries, Sequence) else []
    success = model.made_text("{{ outcome.status == 'success' }}", at)
    entry = model.made_mapping([("expr", success), ("do", model.made_text("continue", at)), *written], at)
    last = next((i for i, one in enumerate(listed) if _is_else(one)), len(listed))
    kept = [one for one in listed[:last] if not _is_success(one)]
    if len(kept) < last:
        # The task has its own rules for success. Which of them these writes belong to is the author's decision.
        return node
    listed.insert(last, entry)
    return model.with_value(model.without_keys(node, *_KEYS), "eval", model.made_list(listed, at), node.keys[key])


def _is_else(node: Node) -> bool:
    return isinstance(node, Mapping) and "else" in node


def _is_success(node: Node) -> bool:
    """Whether an entry can match a success, as far as its text shows."""
    when = node.get("expr") if isinstance(node, Mapping) else None
    return not (isinstance(when, Scalar) and "error" in str(when.value))


SPELLINGS = (
    Spelling(
        id="io-names",
        where=Where.STEP,
        own=V10_IO,
        older="`{{ output.data }}`, `{{ output.status }}`, `{{ input.name }}`",
        canonical="`{{ outcome.data }}`, `{{ outcome.status }}` in rules, `{{ event.result }}` on steps and arcs, "
        "`{{ args.name }}`",
        dialects=(V10_IO,),
        rewrite=_name_outputs,
    ),
    Spelling(
        id="step-input",
        where=Where.STEP,
        own=V10_IO,
        older="`input` of a step",
        canonical="`args`",
        dialects=(V10_IO,),
        rewrite=renames("a step", {"input": "args"}),
    ),
    Spelling(
        id="task-input",
        where=Where.TASK,
        own=V10_IO,
        older="`input` of a task",
        canonical="`args`",
        dialects=(V10_IO,),
        rewrite=renames("a task", {"input": "args"}),
    ),
    Spelling(
        id="arc-input",
        where=Where.ARC,
        own=V10_IO,
        older="`input` of an arc",
        canonical="`args`",
        dialects=(V10_IO,),
        rewrite=renames("an arc", {"input": "args"}),
    ),
    Spelling(
        id="step-set",
        where=Where.STEP,
        own=V10_IO,
        older="`set: {name: …}` of a step",
        canonical="`set_ctx: {name: …}`",
        dialects=(V10_IO,),
        rewrite=_set_on_step,
    ),
    Spelling(
        id="arc-set",
        where=Where.ARC,
        own=V10_IO,
        older="`set: {name: …}` of an arc",
        canonical="`set_ctx: {name: …}`",
        dialects=(V10_IO,),
        rewrite=_set_on_step,
    ),
    Spelling(
        id="task-output",
        where=Where.TASK,
        own=V10_IO,
        older="`output: {rules: […]}` of a task",
        canonical="`spec: {policy: {rules: […]}}`",
        dialects=(V10_IO,),
        rewrite=_name_policy,
    ),
    Spelling(
        id="task-set",
        where=Where.TASK,
        own=V10_IO,
        older="`set: {name: …}` of a task",
        canonical="`set_ctx: {name: …}` in a rule for success",
        dialects=(V10_IO,),
        rewrite=_set_on_task,
    ),
    Spelling(
        id="task-set-ctx",
        where=Where.TASK,
        older="`set_ctx`, `set_iter` of a task",
        canonical="the same in a rule for success",
        dialects=(V10,),
        rewrite=_write_in_rules,
    ),
    Spelling(
        id="task-set-eval",
        where=Where.TASK,
        older="`set_ctx`, `set_iter` of a task beside `eval`",
        canonical="the same in a rule for success",
        dialects=(V2_EVAL,),
        rewrite=_write_in_eval,
    ),
)
