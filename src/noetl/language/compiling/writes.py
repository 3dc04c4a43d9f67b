"""Writes: what rules and steps may not assign (KEY-03, SCOPE-01, SCOPE-08, V2E-06).

`workload` and the keychain are read-only, an iteration's own position and binding cannot be overwritten, and plain
shared writes have no order in a parallel loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.pipelines import MAIN, Pipeline, pipelines
from noetl.language.compiling.step_names import arcs_of
from noetl.language.reading.nodes import Mapping, Scalar
from noetl.language.reading.playbook import LoopSyntax, Playbook, SetVars, StepSyntax, Then

_NAMESPACES = ("workload", "keychain", "ctx", "iter", "vars", "execution_id")
_TARGETS = {"set_iter": "iter"}  # where the others but set_ctx, vars and set write
_OF_ITER = ("workload", "keychain", "ctx", "iter", "index", "parent")


def check_writes(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_RESERVED_NAME for written keys, E_PARALLEL_VARS."""
    _check(playbook.ctx, _NAMESPACES, "ctx", compilation)
    for step in playbook.steps:
        for written, word in _step_writes(step):
            _check(written, _NAMESPACES, word, compilation)
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
    _check(then.set_ctx, _NAMESPACES, "set_ctx", compilation)
    _check(then.set_iter, (*_OF_ITER, *_iterator(pipeline)), "set_iter", compilation)
    for written, word in ((then.set_vars, "set_vars"), (then.set_shared, "set_shared")):
        _check(written, ("workload", "keychain"), word, compilation)
    loop = pipeline.step.loop if pipeline.step and pipeline.part == MAIN else None
    if then.set_vars is not None and _runs_parallel(loop):
        compilation.note(
            "E_PARALLEL_VARS",
            then.set_vars,
            "set_vars in a parallel loop: iterations would overwrite each other",
            "write set_iter for this iteration, or set_shared to fold all of them",
        )


def _check(written: Mapping | None, refused: tuple[str, ...], word: str, compilation: Compilation) -> None:
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
    while loop is not None and loop.inner is not None:
        loop = loop.inner
    return (str(loop.iterator.value),) if loop is not None else ()


def _runs_parallel(loop: LoopSyntax | None) -> bool:
    while loop is not None:
        if loop.mode == "parallel":
            return True
        loop = loop.inner
    return False
