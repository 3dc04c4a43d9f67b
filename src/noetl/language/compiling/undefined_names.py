"""Undefined names: a bare name that nothing in the document can define would fail its template at run time (TPL-03).

A name may come from any step, task, iterator, `args`, `ctx` or `workload` key of the document, wherever it is set: it
is not known which of them have run. Names under `is defined` and `default(…)` are not reported.

Also undefined keys of values whose keys follow from the document: `event` and `token` have always the same ones,
`outcome` nearly so, `iter` those of its loop and of `set_iter`, a human task the fields of its form. At run time such a
read is null. A start may bring more `workload` than is declared: a slip of the pen is refused there, any other key is
warned of once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.base.diagnostics import is_template, nearest_word
from noetl.language.compiling.lowering.values import loops_of
from noetl.language.compiling.passes import Compilation, every_task
from noetl.language.compiling.step_names import arcs_of
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import key_in, name_in, parsed
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect, LoopSyntax, Playbook, SetVars, StepSyntax
from noetl.language.reading.shared_checks import is_typo
from noetl.net.names import collecting_steps, defined_names, names_beside_collected
from noetl.net.net import Net
from noetl.templates.logic import GuardReference
from noetl.templates.scope import TemplateSite, foreign, is_reserved, visible
from noetl.templates.values import NAMES_OF_OTHERS

_WAY_OUT = "declare it under workload, with null if each start gives it; or give a default: | default(…)"


def check_undefined_names(playbook: Playbook, net: Net, compilation: Compilation) -> None:
    """E_UNDEFINED_NAME; under noetl.io/v2 W_UNDEFINED_NAME."""
    names = defined_names(net)
    if names is None:
        return
    names |= set(playbook.workbook)
    parted = {step.name: re.split("[-.]", step.name) for step in playbook.steps if not step.name.isidentifier()}
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        read = [one.root for one in template.references if not one.defaulted] if template else []
        here = visible(written.site, playbook.dialect.rules.value) | names | written.own_args
        unknown = [name for name in dict.fromkeys(read) if name not in here and not is_reserved(name)]
        for step, parts in parted.items() if unknown else ():
            # In a template `load-orders` means `load - orders`, two unknown names; one message about the step is
            # clearer.
            if step in written.text and len(parts) > 1 and not set(parts).isdisjoint(unknown):
                unknown = [name for name in unknown if name not in parts]
                _note_parted(step, parts, written, playbook, compilation)
        for name in unknown:
            _note(name, here, written, playbook, compilation)


def check_collected_names(playbook: Playbook, net: Net, compilation: Compilation) -> None:
    """W_FOREIGN_NAME for pages that v2-case collects and another step reads by their bare name, where it is null."""
    collecting = collecting_steps(net) if playbook.dialect is Dialect.V2_CASE else {}
    for written in written_texts(playbook, compilation) if collecting else ():
        template = parsed(written.text)
        read = {one.root for one in template.references if not one.defaulted} if template else set()
        step = written.step_of(playbook)
        here = step.name if step is not None else ""
        for name in sorted(read & collecting.keys()):
            with_args = written.site not in (TemplateSite.STEP_ARGS, TemplateSite.LOOP_ARGS)
            known = names_beside_collected(net, here, with_args=with_args) | written.own_args
            if collecting[name] != here and name not in known:
                message = f'"{name}" is collected by the step "{collecting[name]}" and is null in {written.what}'
                place = name_in(written.scalar, name, playbook.source)
                compilation.note("W_FOREIGN_NAME", place, message, f"write {collecting[name]}.{name}")


def _note(name: str, here: frozenset[str], written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, name, playbook.source)
    guess = nearest_word(name, [each for each in here if not each.startswith("_")])
    hint = NAMES_OF_OTHERS.get(name) or (f'did you mean "{guess}"? Else {_WAY_OUT}' if guess else _WAY_OUT)
    if (instead := foreign(name, playbook.dialect.rules.value, written.site)) is not None:
        hint = f"write {instead}"
    message = f'nothing in this playbook is called "{name}", which {written.what} reads'
    compilation.note(undefined_code(playbook), place, message, hint)


def _identifier(step: str) -> str:
    return re.sub("[-.]", "_", step)


def _note_parted(
    step: str, parts: list[str], written: TemplateText, playbook: Playbook, compilation: Compilation
) -> None:
    place = name_in(written.scalar, parts[0], playbook.source)
    meant = "a subtraction" if "-" in step else f'the field "{parts[1]}" of "{parts[0]}"'
    message = f'"{step}" cannot be read in {written.what}: to a template it is {meant}'
    compilation.note(undefined_code(playbook), place, message, f'rename the step to "{_identifier(step)}"')


def undefined_code(playbook: Playbook) -> str:
    return "E_UNDEFINED_NAME" if refuses_undefined(playbook) else "W_UNDEFINED_NAME"


# Scope names: a template reads only what can be seen where it is rendered (TPL-05, C-26, reliability.md §2.6).


def check_scope_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ITER_IN_ARC, W_FOREIGN_NAME, W_KEYCHAIN and E_KEYCHAIN; E_UNDEFINED_NAME for a reserved word that no place of
    the dialect has."""
    dialect = playbook.dialect.rules.value
    given = given_names(playbook)
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        seen = visible(written.site, dialect) | _retry_name(written, playbook)
        for name in dict.fromkeys(read.root for read in template.references) if template else ():
            if name == "keychain" and written.site is TemplateSite.KEYCHAIN:
                _note_entry(written, playbook, compilation)
            elif name == "keychain" and (written.into_ctx or name not in seen):
                _note_keychain(written, playbook, compilation)
            elif name not in seen and name not in given:
                _note_unseen(name, written, seen, playbook, compilation)
    return playbook


def _retry_name(written: TemplateText, playbook: Playbook) -> frozenset[str]:
    """`_retry` in the inputs of a call that v2-case may repeat (001 §6.3)."""
    step = written.step_of(playbook)
    is_input = playbook.dialect is Dialect.V2_CASE and written.site is TemplateSite.TASK_INPUT
    return frozenset({"_retry"} if is_input and step is not None and (step.retry or step.case) else ())


def _note_entry(written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    message = f"keychain is read in {written.what}, before any entry is resolved, so it is undefined"
    compilation.note("W_KEYCHAIN", place, message, "let the entry take it from a stored credential: auth: NAME")


def _note_keychain(written: TemplateText, playbook: Playbook, compilation: Compilation) -> None:
    place = name_in(written.scalar, "keychain", playbook.source)
    if written.into_ctx:
        message, hint = (
            "keychain is written to ctx, and secrets cannot be stored in ctx",
            "read it in the task that needs it",
        )
    else:
        message = f"keychain is read in {written.what}, which the server evaluates"
        hint = "only the inputs of a task can read secrets: read it there"
    compilation.note("E_KEYCHAIN", place, message, hint)


def _note_unseen(
    name: str, written: TemplateText, seen: frozenset[str], playbook: Playbook, compilation: Compilation
) -> None:
    place = name_in(written.scalar, name, playbook.source)
    here = f"visible here are {', '.join(sorted(each for each in seen if not each.startswith('_')))} and step results"
    if name == "iter" and written.site is TemplateSite.ARC:
        message = f'"iter" ends with its iteration and cannot be read in {written.what}'
        compilation.note("W_ITER_IN_ARC", place, message, f"{here}; keep the value with set_ctx")
        return
    if not is_reserved(name):
        return
    instead = foreign(name, playbook.dialect.rules.value, written.site)
    if instead is not None and instead.partition(".")[0] == "outcome" and "outcome" not in seen:
        instead = "the name of a task or step, as in fetch.data or fetch.error"
    message = f'"{name}" cannot be read in {written.what}, so it is undefined'
    nowhere = all(name not in visible(site, playbook.dialect.rules.value) for site in TemplateSite)
    code = "E_UNDEFINED_NAME" if nowhere and refuses_undefined(playbook) else "W_FOREIGN_NAME"
    compilation.note(code, place, message, f"write {instead}" if instead else here)


def refuses_undefined(playbook: Playbook) -> bool:
    """Whether an undefined name is an error: under noetl.io/v10 and with --strict. Elsewhere it is a warning."""
    return playbook.api_version.endswith("/v10") or playbook.strict


def given_names(playbook: Playbook) -> set[str]:
    """Bare names that mean the author's own data, which may well be called `status_code` or `page` (TPL-06)."""
    return data_names(playbook).union(step.name for step in playbook.steps)


def data_names(playbook: Playbook) -> set[str]:
    """The keys of workload, ctx and args, which come before the name of a step or task."""
    mappings = [playbook.workload, playbook.ctx]
    for step in playbook.steps:
        arcs = list(arcs_of(step))
        mappings += [step.args, step.set_ctx, step.vars, *(arc.args for arc in arcs), *(arc.set_ctx for arc in arcs)]
        for rule in step.case.rules if step.case else ():
            mappings += [action.values for action in rule.actions if isinstance(action, SetVars)]
    for task, _ in every_task(playbook):
        mappings += [rule.then.set_ctx for rule in task.policy.rules] if task.policy else []
    return set[str]().union(*(mapping.keys for mapping in mappings if mapping is not None))


EVENT_KEYS = frozenset({"name", "step", "status", "data", "result", "error"})
TOKEN_KEYS = frozenset({"args", "inputs", "meta"})
OUTCOME_KEYS = frozenset({"status", "result", "data", "error", "meta", "http", "pg", "py"})
OUTCOME_HELPERS = {
    "http": frozenset({"status", "headers"}),
    "pg": frozenset({"code", "message"}),
    "py": frozenset({"exception"}),
    "meta": frozenset({"attempt", "started_at", "finished_at", "duration_ms", "trace_id", "task_run_id"})
    | {"internal_attempts", "stdout"},
}
# Keys that people expect in an outcome and that no kind has; a kind may add keys to OUTCOME_KEYS.
_NO_OUTCOME_KEYS = frozenset(
    {"ok", "success", "succeeded", "failed", "failure", "status_code", "rows", "row_count", "body", "json", "message"}
    | {"code", "headers", "value", "output", "kind", "exception", "retryable"}
)
_ITER_KEYS = frozenset({"index", "parent", "extend"})
_JUDGED_KEYS = frozenset({"result", "done", "failed", "total"})  # of `complete_when`
# Workload keys that schedules and triggers provide.
_STARTED_WITH = frozenset({"schedule", "item"})
_SHOWN = 12  # keys that a hint lists
_PAYLOAD = ("data", "result")
_RESULT_WORDS = frozenset({*_PAYLOAD, "status", "error", "ref", "rows", "results"})


def check_undefined_keys(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_UNDEFINED_NAME, under noetl.io/v2 W_UNDEFINED_NAME; W_WORKLOAD_KEY."""
    forms = {step.name: _fields(step) for step in playbook.steps if _fields(step)}
    iterations = _Iterations(playbook)
    declared = frozenset(playbook.workload.keys if playbook.workload is not None else ())
    # Known workload keys, and keys that were already reported.
    known = set(declared | _STARTED_WITH)
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        seen = visible(written.site, playbook.dialect.rules.value)
        for read in template.references if template else ():
            if read.path and not read.defaulted and isinstance(read.path[0], str):
                if read.root == "workload" and "workload" in seen and read.path[0] not in known:
                    # Reported once for each key, which is often read in many places.
                    known.add(read.path[0])
                    _note_undeclared(read, declared, written, playbook, compilation)
                _check(read, seen, forms, iterations, written, playbook, compilation)
    return playbook


def _check(
    read: GuardReference,
    seen: frozenset[str],
    forms: dict[str, frozenset[str]],
    iterations: _Iterations,
    written: TemplateText,
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    # `check_scope_names` reports names that are not in scope here at all.
    if read.root not in seen and read.root not in forms:
        return
    match read.root:
        case "workload":
            found = _slip(playbook.workload, read.path)
        case "event":
            found = (str(read.path[0]), EVENT_KEYS) if read.path[0] not in EVENT_KEYS else None
        case "token":
            found = (str(read.path[0]), TOKEN_KEYS) if read.path[0] not in TOKEN_KEYS else None
        case "outcome":
            found = (str(read.path[0]), OUTCOME_KEYS) if read.path[0] in _NO_OUTCOME_KEYS else _no_helper(read.path)
        case "iter":
            found = iterations.unknown(str(read.path[0]), written)
        case _ if read.root in forms:
            found = _no_field(read.path, forms[read.root])
        case _:
            found = None
    if found is not None:
        _note_key(read, *found, written, playbook, compilation)


def _no_helper(path: tuple[str | int, ...]) -> tuple[str, frozenset[str]] | None:
    """The key that a helper of the outcome does not have, as `status_code` of `outcome.http`."""
    known = OUTCOME_HELPERS.get(str(path[0]))
    if known is None or len(path) < 2 or not isinstance(path[1], str) or path[1] in known:
        return None
    return path[1], known


def _slip(declared: Any, path: tuple[str | int, ...]) -> tuple[str, frozenset[str]] | None:
    """The first key of the path that is a misspelling of a declared key."""
    for key in path:
        if not isinstance(declared, Mapping) or not isinstance(key, str):
            return None
        if key not in declared:
            return (key, frozenset(declared.keys)) if is_typo(key, list(declared.keys)) else None
        declared = declared.get(key)
    return None


def _note_undeclared(
    read: GuardReference,
    declared: frozenset[str],
    written: TemplateText,
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    key = str(read.path[0])
    if is_typo(key, list(declared)):
        return  # `_slip` has the better message
    place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
    shown = sorted(declared)[:_SHOWN] + ["…"] * (len(declared) > _SHOWN)
    known = f"it declares {', '.join(shown)}" if declared else "it declares none"
    message = f'"workload" has no "{key}", which {written.what} reads: it is null unless the start gives it'
    hint = f"{known}; add {key}: null under workload, or write | default(…)"
    compilation.note("W_WORKLOAD_KEY", place, message, hint)


def _fields(step: StepSyntax) -> frozenset[str]:
    return frozenset(field.field for field in step.blocks.human_task.form) if step.blocks.human_task else frozenset()


def _no_field(path: tuple[str | int, ...], fields: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """The field that is read, if the form has no such field."""
    keys = path[1:] if path[0] in _PAYLOAD else path
    if not keys or not isinstance(keys[0], str) or keys[0] in fields | _RESULT_WORDS or keys[0].startswith("_"):
        return None
    return keys[0], fields


class _Iterations:
    """The keys of `iter` in the pipelines of each step."""

    def __init__(self, playbook: Playbook) -> None:
        self._playbook = playbook
        self._written: dict[str, set[str]] = {}
        for task, pipeline in every_task(playbook):
            if pipeline.step is not None:
                keys = self._written.setdefault(pipeline.step.name, set())
                keys.update(_set_iter(task.policy.rules if task.policy else ()))

    def unknown(self, key: str, written: TemplateText) -> tuple[str, frozenset[str]] | None:
        step = written.step_of(self._playbook)
        # A workbook task runs in the iteration of its caller, which is unknown here.
        if step is None:
            return None
        own = self._written.get(step.name, set())
        known = _ITER_KEYS | {key.partition(".")[0] for key in own} | _iterators(step.loop, written.site)
        if key in known or any(map(is_template, own)):
            return None
        return key, known


def _set_iter(rules: tuple[Any, ...]) -> Iterator[str]:
    for rule in rules:
        if rule.then.set_iter is not None:
            yield from rule.then.set_iter.keys


def _iterators(loop: LoopSyntax | None, site: TemplateSite) -> frozenset[str]:
    """That of the innermost level for tasks: those around it are in `iter.parent`. Templates of the loop itself may
    be at any level."""
    names = [str(level.iterator.value) for level in loops_of(loop)]
    if site is TemplateSite.NESTED_LOOP_IN:
        return frozenset(names) | _JUDGED_KEYS
    return frozenset(names[-1:])


# Keys of other results, by what has the value here.
_MEANT = {
    **dict.fromkeys((("outcome", "status_code"), ("outcome", "http_status")), "outcome.http.status"),
    ("outcome", "message"): "outcome.error.message",
    ("outcome", "code"): "outcome.error.code",
    ("event", "message"): "event.error.message",
    ("event", "payload"): "event.data",
}


def _note_key(
    read: GuardReference,
    key: str,
    known: frozenset[str],
    written: TemplateText,
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    place = key_in(written.scalar, read.root, read.path[: read.path.index(key) + 1], playbook.source)
    guess = nearest_word(key, known)
    choices = f"there are {', '.join(sorted(known))}"
    hint = f'did you mean "{guess}"? Else write | default(…)' if guess else f"{choices}; or write | default(…)"
    if (read.root, key) in _MEANT:
        hint = f"write {_MEANT[read.root, key]}"
    holder = f"outcome.{read.path[0]}" if read.root == "outcome" and key != read.path[0] else read.root
    compilation.note(undefined_code(playbook), place, f'"{holder}" has no "{key}", which {written.what} reads', hint)
