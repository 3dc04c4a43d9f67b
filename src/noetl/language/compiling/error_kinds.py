"""Error kinds: a rule that waits for a kind of error which its tool never gives will never hold (VAL-20).

The kinds are those that the tool's own declaration lists, and those that any task may end with.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.source import is_template
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Playbook, StepSyntax, TaskSyntax
from noetl.language.reading.shared_checks import nearest
from noetl.net.kinds import COMMON_ERRORS, STEP_ERRORS

# Where a condition finds the kind of an error, by what it is a condition of.
_OF_TASK = frozenset({("outcome", ("error", "kind"))})
_OF_STEP = frozenset({("event", ("error", "kind")), ("response", ("error", "kind")), ("error", ("kind",))})


def check_error_kinds(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_KIND."""
    for task, _ in every_task(playbook):
        for rule in task.policy.rules if task.policy else ():
            _check(rule.when, _OF_TASK, (task,), playbook, compilation)
    for step in playbook.steps:
        tasks = tuple(_tasks_of(step))
        for when in _conditions(step):
            _check(when, _OF_STEP, tasks, playbook, compilation)
    return playbook


def _tasks_of(step: StepSyntax) -> Iterator[TaskSyntax]:
    """Every task whose error can end the step."""
    yield from (task for task in step.tasks if isinstance(task, TaskSyntax))
    yield from (step.sink,) if step.sink is not None else ()
    for rule in step.case.rules if step.case is not None else ():
        yield from (action for action in rule.actions if isinstance(action, TaskSyntax))
    for retry in step.retry:
        yield from (retry.sink,) if retry.sink is not None else ()


def _conditions(step: StepSyntax) -> Iterator[Scalar | None]:
    """What is looked at when the step, or its call, has ended: arcs, case rules, retries."""
    yield from (arc.when for arc in (step.router.arcs if step.router is not None else ()))
    yield from (rule.when for rule in (step.case.rules if step.case is not None else ()))
    yield from (retry.when for retry in step.retry)


def _check(
    when: Scalar | None,
    places: frozenset[tuple[str, tuple[str, ...]]],
    tasks: tuple[TaskSyntax, ...],
    playbook: Playbook,
    compilation: Compilation,
) -> None:
    template = parsed(str(when.value)) if when is not None and is_template(str(when.value)) else None
    words = [
        word
        for test in (template.comparisons if template is not None else ())
        if (test.root, test.path) in places
        for word in test.values
        if isinstance(word, str)
    ]
    if not words or when is None:
        return
    kinds = [compilation.kinds.get(task.kind) for task in tasks]
    known = [kind for kind in kinds if kind is not None and kind.error_kinds]
    if not known or len(known) < len(kinds):  # of a plug-in nobody knows
        return
    own = tuple(dict.fromkeys(word for kind in known for word in (*kind.error_kinds, *kind.error_aliases)))
    given = tuple(dict.fromkeys(word for kind in known for word in kind.error_kinds))
    names = " or ".join(f'"{name}"' for name in dict.fromkeys(kind.name for kind in known))
    for word in words:
        if word not in own and word not in COMMON_ERRORS and (places is _OF_TASK or word not in STEP_ERRORS):
            guess = nearest(word, own) or nearest(word, COMMON_ERRORS)
            here = f"it gives {', '.join((*given, *COMMON_ERRORS))}"
            hint = f'did you mean "{guess}"? {here}' if guess else here
            place = name_in(when, word, playbook.source, quoted=True)
            compilation.note("W_ERROR_KIND", place, f'no {names} task ends with the error "{word}"', hint)
