"""Spec keys: an option that nothing reads is probably a slip (SPEC-05, C-30).

Only warnings: plug-in kinds read options of their own.
"""

from __future__ import annotations

from noetl.language.compiling.lowering.overlay import EXECUTOR_OPTIONS, LOOP_OPTIONS, loops_of, step_options
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.reading.loops import REPLACED_OPTIONS
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect, Playbook, TaskSyntax
from noetl.language.reading.shared_checks import nearest
from noetl.net.kinds import COMMON_SPEC

_COMMON = frozenset(knob.name for knob in COMMON_SPEC)


def check_spec_keys(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_SPEC_KEY, and I_TIMEOUT_SCOPE for a v10 step's timeout. The reader of v2-case knows its options itself."""
    executor = playbook.executor.spec if playbook.executor else None
    _check_outer(executor, EXECUTOR_OPTIONS, "executor.spec", compilation)
    if playbook.dialect is Dialect.V2_CASE:
        return playbook
    options = step_options(playbook.dialect.rules)
    for step in playbook.steps:
        _check_outer(step.spec, options, "a step's spec", compilation)
        for loop in loops_of(step.loop):
            _check_outer(loop.spec, _loop_options(playbook.dialect), "a loop's spec", compilation)
        if playbook.dialect.rules is Dialect.V10 and step.spec is not None and "timeout" in step.spec:
            compilation.note(
                "I_TIMEOUT_SCOPE",
                step.spec.keys["timeout"],
                "this timeout is the default of each task, not of the step",
                "for the whole step write spec.policy.lifecycle.timeout_s",
            )
    for task, _ in every_task(playbook):
        _check_task(task, compilation)
    return playbook


def _loop_options(dialect: Dialect) -> frozenset[str]:
    """Without those that the dialect's reader refuses: a hint must not propose them."""
    return LOOP_OPTIONS - REPLACED_OPTIONS.keys() if dialect.rules is Dialect.V10 else LOOP_OPTIONS


def _check_outer(spec: Mapping | None, options: frozenset[str], what: str, compilation: Compilation) -> None:
    """An outer spec may hold the construct's options and the knobs of whatever kinds its tasks have (SPEC-02)."""
    if spec is None or spec.keys.keys() <= options | _COMMON:  # plug-ins are looked for only when it matters
        return
    knobs = _COMMON | {knob.name for name in compilation.kinds for knob in compilation.kinds[name].spec}
    hint = f"its own options are {', '.join(sorted(options))}; others are knobs of its tasks"
    _check(spec, options | knobs, what, hint, compilation)


def _check_task(task: TaskSyntax, compilation: Compilation) -> None:
    kind = compilation.kinds.get(task.kind)
    if kind is None or kind.takes_anything:
        return
    known = _COMMON | {knob.name for knob in kind.spec}
    hint = f"known are {', '.join(sorted(known))}"
    _check(task.spec, known | {"policy"}, f"the spec of kind {task.kind}", hint, compilation)


def _check(spec: Mapping | None, known: frozenset[str], what: str, otherwise: str, compilation: Compilation) -> None:
    for key, place, _ in spec.items() if spec is not None else ():
        if key not in known and not compilation.findings.refuses(place):  # whose code says what to write instead
            guess = nearest(key, known)
            hint = f'did you mean "{guess}"?' if guess else otherwise
            compilation.note("W_SPEC_KEY", place, f'nothing reads "{key}" in {what}', hint)
