"""Undefined keys: a key of a value whose keys the document tells, and which it does not have (TPL-03).

At run time such a read is null, like any absent key. Here it is found where the keys are known: `event` and `token`
have always the same ones, `outcome` nearly so, `iter` those of its loop and of `set_iter`, a human task the fields of
its form. A start may bring more `workload` than is declared: a slip of the pen is refused there, any other key is
warned of once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.template_sites import TemplateText, written_texts
from noetl.language.compiling.text_positions import key_in, parsed
from noetl.language.compiling.undefined_names import undefined_code
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import LoopSyntax, Playbook, StepSyntax
from noetl.language.reading.shared_checks import is_typo, nearest
from noetl.templates.logic import GuardReference
from noetl.templates.scope import TemplateSite, visible

EVENT_KEYS = frozenset({"name", "step", "status", "data", "result", "error"})
TOKEN_KEYS = frozenset({"args", "inputs", "meta"})
OUTCOME_KEYS = frozenset({"status", "result", "data", "error", "meta", "http", "pg", "py"})
# Words that people look for in an outcome and that no kind adds to it; a kind may add others than OUTCOME_KEYS.
_NO_OUTCOME_KEYS = frozenset(
    {"ok", "success", "succeeded", "failed", "failure", "status_code", "rows", "row_count", "body", "json", "message"}
    | {"code", "headers", "value", "output", "kind", "exception", "retryable"}
)
_ITER_KEYS = frozenset({"index", "parent", "extend"})
_JUDGED_KEYS = frozenset({"result", "done", "failed", "total"})  # of `complete_when`
_STARTED_WITH = frozenset({"schedule", "item"})  # what a schedule and a trigger bring
_SHOWN = 12  # keys that a hint lists
_PAYLOAD = ("data", "result")
_RESULT_WORDS = frozenset({*_PAYLOAD, "status", "error", "ref", "rows", "results"})
_STEP = re.compile(r"workflow\[(\d+)\]")


def check_undefined_keys(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_UNDEFINED_NAME, under noetl.io/v2 W_UNDEFINED_NAME; W_WORKLOAD_KEY."""
    forms = {step.name: _fields(step) for step in playbook.steps if _fields(step)}
    iterations = _Iterations(playbook)
    declared = frozenset(playbook.workload.keys if playbook.workload is not None else ())
    known = set(declared | _STARTED_WITH)  # of workload, and what has been warned of
    for written in written_texts(playbook, compilation):
        template = parsed(written.text)
        seen = visible(written.site, playbook.dialect.rules.value)
        for read in template.references if template else ():
            if read.path and not read.defaulted and isinstance(read.path[0], str):
                if read.root == "workload" and "workload" in seen and read.path[0] not in known:
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
            found = (str(read.path[0]), OUTCOME_KEYS) if read.path[0] in _NO_OUTCOME_KEYS else None
        case "iter":
            found = iterations.unknown(str(read.path[0]), written)
        case _ if read.root in forms:
            found = _no_field(read.path, forms[read.root])
        case _:
            found = None
    if found is not None:
        _note(read, *found, written, playbook, compilation)


def _slip(declared: Any, path: tuple[str | int, ...]) -> tuple[str, frozenset[str]] | None:
    """The first key on the way that is nearly one of those declared there."""
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
        return  # `_slip` says more of it
    place = key_in(written.scalar, read.root, read.path[:1], playbook.source)
    shown = sorted(declared)[:_SHOWN] + ["…"] * (len(declared) > _SHOWN)
    there = f"it declares {', '.join(shown)}" if declared else "it declares none"
    message = f'"workload" has no "{key}", which {written.what} reads: it is null unless the start brings it'
    hint = f"{there}; add {key}: null under workload, or write | default(…)"
    compilation.note("W_WORKLOAD_KEY", place, message, hint)


def _fields(step: StepSyntax) -> frozenset[str]:
    return frozenset(field.field for field in step.human_task.form) if step.human_task else frozenset()


def _no_field(path: tuple[str | int, ...], fields: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """The field of the form that is read, where the form has no such one."""
    keys = path[1:] if path[0] in _PAYLOAD else path
    if not keys or not isinstance(keys[0], str) or keys[0] in fields | _RESULT_WORDS or keys[0].startswith("_"):
        return None
    return keys[0], fields


class _Iterations:
    """What `iter` has in the pipelines of each step."""

    def __init__(self, playbook: Playbook) -> None:
        self._steps = playbook.steps
        self._written: dict[str, set[str]] = {}
        for task, pipeline in every_task(playbook):
            if pipeline.step is not None:
                keys = self._written.setdefault(pipeline.step.name, set())
                keys.update(_set_iter(task.policy.rules if task.policy else ()))

    def unknown(self, key: str, written: TemplateText) -> tuple[str, frozenset[str]] | None:
        at = _STEP.match(written.scalar.path)
        if at is None:
            return None  # a workbook task: its iteration is its caller's
        step = self._steps[int(at[1])]
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
    """That of the innermost level for tasks: those around it are in `iter.parent`. What a loop itself renders may
    stand at any level."""
    names: list[str] = []
    while loop is not None:
        names.append(str(loop.iterator.value))
        loop = loop.inner
    if site is TemplateSite.NESTED_LOOP_IN:
        return frozenset(names) | _JUDGED_KEYS
    return frozenset(names[-1:])


def _note(
    read: GuardReference,
    key: str,
    known: frozenset[str],
    written: TemplateText,
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    place = key_in(written.scalar, read.root, read.path[: read.path.index(key) + 1], playbook.source)
    guess = nearest(key, known)
    there = f"there are {', '.join(sorted(known))}"
    hint = f'did you mean "{guess}"? Else write | default(…)' if guess else f"{there}; or write | default(…)"
    compilation.note(undefined_code(playbook), place, f'"{read.root}" has no "{key}", which {written.what} reads', hint)
