"""Policies in other shapes: rules straight under `spec`, admission as a condition or a list, `else: true`, limits.

Other spellings of steps and tasks: `vars`, `description`, labels.
"""

from __future__ import annotations

from noetl.base.diagnostics import is_template
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence
from noetl.language.reading.spellings import model
from noetl.language.reading.spellings.model import Rewriting, Spelling, Where
from noetl.language.reading.spellings.routing import CONDITIONS
from noetl.language.reading.spellings.rules import read_pairs

_ANSWERS = {"allow": True, "deny": False, True: True, False: False}


def _move_rules(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`spec.rules` of a task."""
    spec = node.get("spec")
    if "kind" not in node or not isinstance(spec, Mapping) or "policy" in spec:
        return node
    if not isinstance(spec.get("rules"), Sequence):
        return node
    rewriting.note(spec.keys["rules"], "spec.rules of a task", "spec.policy.rules")
    return model.with_value(node, "spec", model.moved_into(spec, "policy", "rules", "rules"))


def _push_error_word(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on_error: continue` of a step with one task: that task decides what follows its error."""
    tool = node.get("tool")
    node = _name_error_word(node, rewriting)
    word = _error_word(node)
    alone = isinstance(tool, Mapping) and isinstance(tool.get("kind"), Scalar) and _error_word(tool) is None
    if word is None or not alone or not isinstance(tool, Mapping) or "loop" in node:
        return node
    tool = model.with_value(tool, word, node.values[word], node.keys[word])
    return model.with_value(model.without_keys(node, word), "tool", tool)


_name_error_word = model.renames(
    "a step or task", dict.fromkeys(("ignore_errors", "allow_failure"), "continue_on_error")
)


def _error_word(node: Mapping) -> str | None:
    """The key that says what follows an error, if its value is one that a task can follow."""
    for key, values in (("on_error", ("continue", "fail", "break")), ("continue_on_error", (True, False))):
        setting = node.get(key)
        if isinstance(setting, Scalar) and setting.value in values:
            return key
    return None


def _move_error_word(node: Mapping) -> Mapping:
    """`on_error: continue` or `continue_on_error: true` beside `kind` or under `spec`, into the policy."""
    spec = node.get("spec")
    holder = node if _error_word(node) is not None else spec
    word = _error_word(holder) if isinstance(holder, Mapping) else None
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    if word is None or not isinstance(holder, Mapping) or "eval" in node:
        return node
    if not (policy is None or (isinstance(policy, Mapping) and "on_error" not in policy)):
        return node
    setting, place = holder.values[word], holder.keys[word]
    if isinstance(setting, Scalar) and isinstance(setting.value, bool):
        setting = model.made_text("continue" if setting.value else "fail", setting)
    rest = model.without_keys(holder, word)
    node = rest if holder is node else model.with_value(node, "spec", rest)
    return model.with_path(node, ("spec", "policy", "on_error"), setting, place)


def _write_error_rule(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`on_error: continue` of a task as the rule for errors, before `else`."""
    node = _move_error_word(_name_error_word(node, rewriting)) if "kind" in node else node
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    if "kind" not in node or not isinstance(spec, Mapping) or not isinstance(policy, Mapping):
        return node
    setting, rules = policy.get("on_error"), policy.get("rules")
    then = _error_directive(setting) if setting is not None else None
    if then is None or setting is None or not (rules is None or isinstance(rules, Sequence)):
        return node
    rewriting.note(policy.keys["on_error"], "on_error of a task", f"a rule {{when: {model.ON_ERROR}, then: …}}")
    rule = model.made_mapping([("when", model.made_text(model.ON_ERROR, setting)), ("then", then)], setting)
    others = list(rules) if rules is not None else []
    # The rule for errors precedes an else, which would match them first.
    last = len(others) - (bool(others) and isinstance(others[-1], Mapping) and "else" in others[-1])
    listed = model.made_list([*others[:last], rule, *others[last:]], policy)
    policy = model.with_value(model.without_keys(policy, "on_error"), "rules", listed)
    return model.with_value(node, "spec", model.with_value(spec, "policy", policy))


def _error_directive(setting: Node) -> Mapping | None:
    if isinstance(setting, Scalar) and setting.value in ("continue", "fail", "break"):
        return model.made_mapping([("do", setting)], setting)
    return setting if isinstance(setting, Mapping) and "do" in setting else None


def _write_admission(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`admit` as a condition, as `{when}`, or as its rules alone."""
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    admit = policy.get("admit") if isinstance(policy, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(policy, Mapping) or admit is None:
        return node
    rules = _admission_rules(admit)
    if rules is not None:
        rewriting.note(policy.keys["admit"], "admit without rules", "admit: {rules: [{when: …, then: {allow: true}}]}")
        admit = model.made_mapping([("rules", rules)], admit)
    listed = admit.get("rules") if isinstance(admit, Mapping) else None
    if isinstance(admit, Mapping) and isinstance(listed, Sequence):
        answered = model.with_items(listed, [_allow_as_mapping(rule, rewriting) for rule in listed])
        admit = model.with_value(admit, "rules", answered)
    return model.with_value(node, "spec", model.with_value(spec, "policy", model.with_value(policy, "admit", admit)))


def _admission_rules(admit: Node) -> Sequence | None:
    if isinstance(admit, Sequence):
        return admit
    when = admit.get("when") if isinstance(admit, Mapping) and len(admit) == 1 else admit
    is_flag = isinstance(when, Scalar) and isinstance(when.value, bool)
    is_text = isinstance(when, Scalar) and isinstance(when.value, str) and _is_condition(when.value)
    if when is None or not (is_flag or is_text):
        return None
    allowed, denied = (model.made_mapping([("allow", model.made_text(answer, when))], when) for answer in (True, False))
    otherwise = model.made_mapping([("then", denied)], when)
    first = model.made_mapping([("when", when), ("then", allowed)], when)
    return model.made_list([first, model.made_mapping([("else", otherwise)], when)], when)


def _is_condition(text: str) -> bool:
    return is_template(text) or text.strip().lower() in ("true", "false")


def _allow_as_mapping(rule: Node, rewriting: Rewriting) -> Node:
    """`then: allow` or `then: deny`, of a rule or of its else."""
    if not isinstance(rule, Mapping):
        return rule
    held = rule.get("else")
    if isinstance(held, Mapping):
        return model.with_value(rule, "else", _allow_as_mapping(held, rewriting))
    then = rule.get("then")
    if isinstance(then, Scalar) and isinstance(then.value, str | bool) and then.value in _ANSWERS:
        rewriting.note(then, f"then: {then.value}", "then: {allow: …}")
        return model.with_value(
            rule, "then", model.made_mapping([("allow", model.made_text(_ANSWERS[then.value], then))], then)
        )
    return rule


def _write_else(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`else: true` beside `then`, and `default` for `else`."""
    if "when" not in node and "else" not in node:
        node = model.renames("a rule", {"default": "else", "otherwise": "else"})(node, rewriting)
    held = node.get("else")
    if isinstance(held, Scalar) and held.value is True and "then" in node and "when" not in node:
        rewriting.note(node.keys["then"], '"then" beside else', "else: {then: …}")
        inner = model.made_mapping([("then", node.values["then"])], node.values["then"])
        return model.with_value(model.without_keys(node, "then"), "else", inner)
    return node


def _move_limit(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`timeout: 30` of a step, which is the limit of the whole step."""
    limit, spec = node.get("timeout"), node.get("spec")
    taken = isinstance(spec, Mapping) and {"timeout", "timeout_s"} & spec.values.keys()
    if "step" not in node or not isinstance(limit, Scalar) or limit.value is None or taken:
        return node
    rewriting.note(node.keys["timeout"], '"timeout" of a step', "spec.timeout_s")
    return model.moved_into(node, "spec", "timeout", "timeout_s")


POLICY_SPELLINGS = (
    Spelling(
        id="task-spec-rules",
        where=Where.TASK,
        older="`spec: {rules: […]}` of a task",
        canonical="`spec: {policy: {rules: […]}}`",
        dialects=(model.V10,),
        rewrite=_move_rules,
    ),
    Spelling(
        id="task-policy-on-error",
        where=Where.TASK,
        older="`on_error: continue`, `continue_on_error: true` of a task, of its `spec` or `spec.policy`",
        canonical="`rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: continue}}]`",
        dialects=(model.V10,),
        refused_by_v10=True,
        rewrite=_write_error_rule,
    ),
    Spelling(
        id="step-on-error",
        where=Where.STEP,
        older="`on_error: continue`, `continue_on_error: true` of a step with one task and no loop",
        canonical="the same of the task",
        dialects=(model.V10,),
        refused_by_v10=True,
        rewrite=_push_error_word,
    ),
    Spelling(
        id="admit-shape",
        where=Where.STEP,
        older='`admit: "{{ … }}"`, `admit: {when: …}`, `admit: [{when, then}]`, `then: allow`',
        canonical="`admit: {rules: [{when: …, then: {allow: true}}, {else: {then: {allow: false}}}]}`",
        dialects=(model.V10,),
        rewrite=_write_admission,
    ),
    Spelling(
        id="rule-else",
        where=Where.RULE,
        older="`{else: true, then: …}`, `default` for `else`",
        canonical="`else: {then: …}`",
        dialects=(model.V10,),
        rewrite=_write_else,
    ),
    Spelling(
        id="step-timeout-value",
        where=Where.STEP,
        older="`timeout: 30` of a step",
        canonical="`spec.policy.lifecycle.timeout_s`",
        dialects=model.EVERYWHERE,
        rewrite=_move_limit,
    ),
)


_OLDER_STORE = "vars"
_KIND_WORDS = {
    "event_log": "log",
    **dict.fromkeys(("postgresql", "pg"), "postgres"),
    "py": "python",
    **dict.fromkeys(("rest", "https"), "http"),
    **dict.fromkeys(("csv", "excel", "xlsx", "parquet", "json", "xml"), "convert"),
    **dict.fromkeys(("zip", "tar"), "archive"),
    **dict.fromkeys(("playbooks", "subflow", "sub_playbook", "subplaybook", "subworkflow"), "playbook"),
    **dict.fromkeys(("print", "echo"), "log"),
    **dict.fromkeys(("start", "end", "pass", "dummy", "empty"), "noop"),
}
# Kinds that other systems write with capitals.
OWN_KINDS = frozenset(
    {"http", "python", "postgres", "duckdb", "sql", "noop", "log", "playbook", "workbook", "secrets", "shell", "script"}
    | {"snowflake", "container", "transfer", "email", "slack", "kafka", "redis", "storage", "artifact"}
)
_EVENT_NAMES = {"response": "event.result", "result": "event.result", "this.data": "event.result", "this": "event"}


def _name_vars(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`vars` writes when the call has answered, as `set_ctx` on the step does; its templates read the result."""
    if "vars" not in node or "set_ctx" in node:
        return node
    rewriting.note(node.keys["vars"], '"vars" of a step', '"set_ctx"')
    node = model.with_key(node, "vars", "set_ctx")
    return model.with_value(node, "set_ctx", model.with_names(node.values["set_ctx"], _EVENT_NAMES))


def _name_outputs(node: Mapping, rewriting: Rewriting) -> Mapping:
    """The outputs of a step for later steps, in the words of other systems."""
    for key in ("set_vars", "outputs", "output", "export"):
        held = node.get(key)
        is_pairs = isinstance(held, Sequence) and all(isinstance(one, Mapping) and "value" in one for one in held)
        is_rules = isinstance(held, Mapping) and "rules" in held
        if "set_ctx" not in node and not is_rules and (isinstance(held, Mapping) or is_pairs):
            rewriting.note(node.keys[key], f'"{key}" of a step', '"set_ctx"')
            node = model.with_key(node, key, "set_ctx")
            node = model.with_value(node, "set_ctx", model.with_names(node.values["set_ctx"], _EVENT_NAMES))
    return node


def _read_vars_from_ctx(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`vars` in a template is the older word for `ctx`, unless the document calls something of its own so."""
    workflow = node.get("workflow")
    if not isinstance(workflow, Sequence) or _OLDER_STORE in _own_names(node, workflow):
        return node
    changed = model.with_names(workflow, {_OLDER_STORE: "ctx"})
    if changed is workflow:
        return node
    rewriting.note(node.keys["workflow"], "vars.NAME in templates", "ctx.NAME")
    return model.with_value(node, "workflow", changed)


def _own_names(root: Mapping, workflow: Sequence) -> set[str]:
    """The names that a document gives: keys of its workload, its steps, iterators and arguments; and `vars`, where
    tasks write variables of their step."""
    workload = root.get("workload")
    found = set(workload.values) if isinstance(workload, Mapping) else set()
    waiting: list[Node] = [workflow]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sequence):
            waiting.extend(node)
        elif isinstance(node, Mapping):
            waiting.extend(node.values.values())
            given = (node.get(key) for key in ("step", "name", "iterator", "element"))
            found |= {str(one.value) for one in given if isinstance(one, Scalar)}
            found |= {_OLDER_STORE} if {"set_vars", "set_shared"} & node.values.keys() else set()
            args = node.get("args")
            found |= set(args.values) if isinstance(args, Mapping) else set()
    return found


def _name_task(node: Mapping, rewriting: Rewriting) -> Mapping:
    """`{label: {kind: …}}` as a task with a name."""
    if len(node) != 1:
        return node
    ((label, key, inside),) = node.items()
    if not isinstance(inside, Mapping) or "kind" not in inside or "name" in inside:
        return node
    rewriting.note(key, f'the label "{label}" of a task', f"name: {label}")
    keys = {"name": model.made_text("name", key), **inside.keys}
    values: dict[str, Node] = {"name": model.made_text(label, key), **inside.values}
    return Mapping(keys, values, node.span, node.path, made=True)


def _name_kind(node: Mapping, rewriting: Rewriting) -> Mapping:
    kind = node.get("kind")
    if not isinstance(kind, Scalar) or not isinstance(kind.value, str):
        return node
    small = kind.value.lower()
    word = _KIND_WORDS.get(small, small if small in OWN_KINDS else kind.value)
    if word != kind.value:
        rewriting.note(kind, f"kind: {kind.value}", f"kind: {word}")
        return model.with_value(node, "kind", model.made_text(word, kind))
    return node


_ABOUT = model.renames("a step or task", {"description": "desc"})

SPELLINGS = (
    Spelling(
        id="vars-reads",
        where=Where.DOCUMENT,
        older="`{{ vars.name }}`",
        canonical="`{{ ctx.name }}`",
        dialects=(model.V10,),
        refused_by_v10=True,
        rewrite=_read_vars_from_ctx,
    ),
    Spelling(
        id="step-vars",
        where=Where.STEP,
        older="`vars: {name: …}` on a step",
        canonical="`set_ctx: {name: …}` on the step",
        dialects=(model.V10, model.V2_EVAL),
        refused_by_v10=True,
        rewrite=_name_vars,
    ),
    Spelling(
        id="step-outputs",
        where=Where.STEP,
        older="`set_vars`, `outputs`, `output`, `export` of a step, with names and values",
        canonical="`set_ctx: {name: …}` on the step",
        dialects=model.EVERYWHERE,
        refused_by_v10=True,
        rewrite=_name_outputs,
    ),
    Spelling(
        id="step-set-pairs",
        where=Where.STEP,
        older="`set_ctx: [{name: n, value: v}]` on a step",
        canonical="`set_ctx: {n: v}`",
        dialects=model.EVERYWHERE,
        rewrite=read_pairs,
    ),
    Spelling(
        id="step-if",
        where=Where.STEP,
        older="`if`, `cond`, `condition` of a step",
        canonical="`spec.policy.admit.rules`",
        dialects=(model.V2_EVAL,),
        rewrite=model.renames("a step", dict.fromkeys(CONDITIONS, "when")),
    ),
    Spelling(
        id="step-description",
        where=Where.STEP,
        older="`description` of a step",
        canonical="`desc`",
        dialects=model.EVERYWHERE,
        rewrite=_ABOUT,
    ),
    Spelling(
        id="task-event-log",
        where=Where.TASK,
        older="`kind: event_log`, `postgresql`, `pg`, `py`, `Python`, `rest`, `csv` (`excel`, `parquet`, …), `zip`, "
        "`print`, `subflow`, `start`, `end`",
        canonical="`kind: log`, `postgres`, `python`, `http`, `convert`, `archive`, `playbook`, `noop`",
        dialects=model.EVERYWHERE,
        rewrite=_name_kind,
    ),
    Spelling(
        id="task-label",
        where=Where.TASK,
        older="`- label: {kind: …}`",
        canonical="`- {name: label, kind: …}`",
        dialects=(model.V10,),
        refused_by_v10=True,
        rewrite=_name_task,
    ),
)
