"""Checks of steps: their names, the targets of their arcs, and what they write.

Names are unique, readable in templates, and one of them is the step to begin with (VAL-01, VAL-17, DOC-12). Every arc
leads to a step of this playbook (VAL-02).

Some names cannot be written by rules and steps (KEY-03, SCOPE-01, SCOPE-08, V2E-06): `workload` and the keychain are
read-only, an iteration's own position and binding cannot be overwritten, and plain shared writes have no order in a
parallel loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import PositionedDiagnostic, nearest_word
from noetl.language.compiling.lowering.values import loops_of
from noetl.language.compiling.passes import MAIN, Compilation, Pipeline, key_place, pipelines
from noetl.language.compiling.text_positions import name_in, parsed
from noetl.language.reading.nodes import Mapping, Scalar, scalars
from noetl.language.reading.playbook import (
    ArcSyntax,
    CaseExit,
    Dialect,
    LoopSyntax,
    Playbook,
    SetVars,
    StepSyntax,
    Then,
)
from noetl.language.reading.shared_checks import did_you_mean, is_within
from noetl.templates.scope import RESERVED, is_reserved, reserved_names

START = "start"


def check_step_names(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_STEP_DUP, E_RESERVED_NAME for steps and iterators, E_NO_START."""
    first: dict[str, tuple[int, StepSyntax]] = {}
    for index, step in enumerate(playbook.steps):
        if step.name in first:
            _note_duplicate(compilation, *first[step.name], index, step)
        first.setdefault(step.name, (index, step))
        reserved = reserved_names(playbook.dialect.rules.value)
        if step.name in reserved or step.name.startswith("_"):
            _note_reserved(compilation, step.name_node, f'"{step.name}" cannot be a step\'s name', reserved)
        _check_iterators(step, compilation)
    _check_entry(playbook, compilation)
    return playbook


def entry_step(playbook: Playbook) -> str | None:
    """The step that gets the first token, if there is one (O-20)."""
    written = _entry_node(playbook)
    name = str(written.value) if written is not None else START
    return name if any(step.name == name for step in playbook.steps) else None


def _entry_node(playbook: Playbook) -> Scalar | None:
    spec = playbook.executor.spec if playbook.executor else None
    node = spec.get("entry_step") if spec else None
    return node if isinstance(node, Scalar) and isinstance(node.value, str) else None


def _check_entry(playbook: Playbook, compilation: Compilation) -> None:
    if not playbook.steps or entry_step(playbook) is not None:
        return
    names = [step.name for step in playbook.steps]
    written = _entry_node(playbook)
    if written is not None:
        message = f'entry_step names "{written.value}", which is not a step here'
        compilation.note("E_NO_START", written, message, did_you_mean(str(written.value), names))
        return
    guess = _likely_entry(playbook)
    hint = f'rename "{guess}" to start, or write executor: {{spec: {{entry_step: {guess}}}}}'
    place = key_place(playbook.node, "workflow", playbook.steps[0].name_node)
    compilation.note("E_NO_START", place, 'no step is called "start", so it is not known which step is the first', hint)


def _likely_entry(playbook: Playbook) -> str:
    """The step that was probably meant to begin: the first that no other step leads to."""
    entered = {
        name
        for step in playbook.steps
        for arc in arcs_of(step)
        for name in (candidates(arc) if arc.template else (str(arc.target.value),))
        # A step that repeats itself may still be the one that begins.
        if name != step.name
    }
    free = [step.name for step in playbook.steps if step.name not in entered] or [step.name for step in playbook.steps]
    # Only one typing mistake counts: "store" resembles "start", but is no misspelling of it.
    return next((name for name in free if is_within(name.lower(), START, 1)), free[0])


def _note_duplicate(compilation: Compilation, index: int, step: StepSyntax, again: int, repeated: StepSyntax) -> None:
    compilation.note(
        "E_STEP_DUP",
        repeated.name_node,
        f'workflow[{index}] (line {step.name_node.span.line}) and workflow[{again}] are both called "{step.name}"',
        "give one of them another name",
    )


def _note_reserved(compilation: Compilation, place: Scalar, message: str, reserved: frozenset[str] = RESERVED) -> None:
    words = sorted(name for name in reserved if not name.startswith("_"))
    hint = f"templates keep {', '.join(words)} and names that begin with _ for themselves"
    compilation.note("E_RESERVED_NAME", place, message, hint)


def _check_iterators(step: StepSyntax, compilation: Compilation) -> None:
    for loop in loops_of(step.loop):
        name = str(loop.iterator.value)
        if not name.isidentifier():
            compilation.note(
                "E_RESERVED_NAME",
                loop.iterator,
                f'"{name}" cannot be an iterator: templates could not read it',
                "write a name of letters, digits and underscores",
            )
        elif name in ("index", "parent"):
            message = f'"{name}" cannot be an iterator\'s name: every iteration has an iter.{name} already'
            compilation.note("E_RESERVED_NAME", loop.iterator, message, "name it after one element, such as item")
        elif is_reserved(name):
            _note_reserved(compilation, loop.iterator, f'"{name}" cannot be an iterator\'s name')


# Targets: every route leads to a step of this playbook (VAL-02, C-27, C-40).

END = "end"


def check_targets(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_NEXT_REF, with the nearest step and its line."""
    lines = {step.name: step.name_node.span.line for step in playbook.steps}
    if playbook.dialect is Dialect.V2_CASE:
        # Line 0: it is not in the document, so no hint names its line.
        # `end` always exists as a terminal place (C-40).
        lines.setdefault(END, 0)
    for step in playbook.steps:
        for arc in arcs_of(step):
            for name in candidates(arc) if arc.template else (str(arc.target.value),):
                place = name_in(arc.target, name, playbook.source, quoted=True) if arc.template else arc.target
                _check_target(name, place, "this arc leads to", lines, compilation)
        for place, verb in _other_targets(step):
            _check_target(str(place.value), place, verb, lines, compilation)
    return playbook


def arcs_of(step: StepSyntax) -> Iterator[ArcSyntax]:
    """The router's arcs, then those of case rules."""
    yield from step.router.arcs if step.router else ()
    for rule in step.case.rules if step.case else ():
        for action in rule.actions:
            if isinstance(action, CaseExit):
                yield from action.targets


def candidates(arc: ArcSyntax) -> tuple[str, ...]:
    """The steps that a computed target can name, if it is a constant or a choice of constants."""
    template = parsed(str(arc.target.value))
    names = (choice for choice in template.choices if isinstance(choice, str)) if template else ()
    return tuple(dict.fromkeys(names))


def _other_targets(step: StepSyntax) -> Iterator[tuple[Scalar, str]]:
    if step.blocks.timeout and step.blocks.timeout.alternative:
        yield step.blocks.timeout.alternative, "alternative_step leads to"
    for arc in arcs_of(step):
        cancel = arc.spec.get("cancel") if isinstance(arc.spec, Mapping) else None
        for place in scalars(cancel) if cancel is not None else ():
            if place.value != "execution":
                yield place, "cancel names"


def _check_target(
    name: str, place: PositionedDiagnostic, verb: str, lines: dict[str, int], compilation: Compilation
) -> None:
    if name in lines:
        return
    guess = nearest_word(name, list(lines))
    where = f" (line {lines[guess]})" if guess and lines[guess] else ""
    hint = f'did you mean "{guess}"{where}?' if guess else f"add - step: {name}, or lead to one of {', '.join(lines)}"
    # A long list of names would hide the fix.
    if not guess and len(lines) > 8:
        hint = f"add - step: {name}"
    compilation.note("E_NEXT_REF", place, f'{verb} "{name}", which is not a step here', hint)


_NAMESPACES = ("workload", "keychain", "ctx", "iter", "vars", "execution_id")
# Target of every write action except set_ctx, vars and set.
_TARGETS = {"set_iter": "iter"}
_OF_ITER = ("workload", "keychain", "ctx", "iter", "index", "parent")


def check_writes(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_RESERVED_NAME for written keys, E_PARALLEL_VARS."""
    _check_write(playbook.ctx, _NAMESPACES, "ctx", compilation)
    for step in playbook.steps:
        for written, word in _step_writes(step):
            _check_write(written, _NAMESPACES, word, compilation)
    for pipeline in pipelines(playbook):
        for task in pipeline.tasks:
            for rule in task.policy.rules if task.policy else ():
                _check_then(rule.then, pipeline, compilation)
    return playbook


def _step_writes(step: StepSyntax) -> Iterator[tuple[Mapping | None, str]]:
    yield step.set_ctx, "set_ctx"
    yield step.vars, "vars"
    yield from ((arc.set_ctx, "set_ctx") for arc in arcs_of(step))
    for rule in step.case.rules if step.case else ():
        yield from ((action.values, "set") for action in rule.actions if isinstance(action, SetVars))


def _check_then(then: Then, pipeline: Pipeline, compilation: Compilation) -> None:
    _check_write(then.set_ctx, _NAMESPACES, "set_ctx", compilation)
    _check_write(then.set_iter, (*_OF_ITER, *_iterator(pipeline)), "set_iter", compilation)
    for written, word in ((then.set_vars, "set_vars"), (then.set_shared, "set_shared")):
        _check_write(written, ("workload", "keychain"), word, compilation)
    loop = pipeline.step.loop if pipeline.step and pipeline.part == MAIN else None
    if then.set_vars is not None and _runs_parallel(loop):
        compilation.note(
            "E_PARALLEL_VARS",
            then.set_vars,
            "set_vars in a parallel loop: iterations would overwrite each other",
            "write set_iter for this iteration, or set_shared to fold all of them",
        )


def _check_write(written: Mapping | None, refused: tuple[str, ...], word: str, compilation: Compilation) -> None:
    for key, place, _ in written.items() if written is not None else ():
        name = key.partition(".")[0].strip()
        if name in refused:
            _note(name, key.partition(".")[2], place, word, compilation)


def _note(name: str, rest: str, place: Scalar, word: str, compilation: Compilation) -> None:
    read_only = name in ("workload", "keychain", "execution_id")
    reason = "is read-only" if read_only else "belongs to the iteration itself" if word == "set_iter" else "is a scope"
    hint = {
        "workload": "execution state goes to ctx under a name of its own",
        "keychain": "a task of kind secrets with op: refresh renews an entry",
    }.get(name, "choose another name")
    if rest and name == _TARGETS.get(word, "ctx"):
        hint = f'write "{rest}": {word} writes into {name} by itself'
    compilation.note("E_RESERVED_NAME", place, f'{word} cannot write "{name}": it {reason}', hint)


def _iterator(pipeline: Pipeline) -> tuple[str, ...]:
    loop = pipeline.step.loop if pipeline.step and pipeline.part == MAIN else None
    return tuple(str(innermost.iterator.value) for innermost in loops_of(loop)[-1:])


def _runs_parallel(loop: LoopSyntax | None) -> bool:
    return any(level.mode == "parallel" for level in loops_of(loop))
