"""Guards: what can be told about a condition without running it, given a few facts.

Facts say what a chain of names is known to equal; an event has several names at once (design.md §5). Everything else
may be true or false, and a guard is decided only when that makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from noetl.base.source import is_template
from noetl.language.compiling.event_names import FAILED, names_of
from noetl.language.compiling.lowering.values import inner, word
from noetl.language.compiling.passes import Compilation, head, key_place
from noetl.language.compiling.pipelines import every_task
from noetl.language.compiling.text_positions import parsed
from noetl.language.reading.nodes import Scalar
from noetl.language.reading.playbook import Admit, ArcSyntax, Dialect, Playbook, PolicySyntax, StepSyntax
from noetl.templates.logic import And, Compare, Const, Not, Opaque, Or, Path, Shape

Facts = Mapping[tuple[str, Path], frozenset[object]]
# What is known about an outcome that is an error.
ERROR_OUTCOME: Facts = {
    ("outcome", ("status",)): frozenset({"error"}),
    ("outcome", ("error",)): frozenset({"an error"}),
    ("outcome", ("result",)): frozenset({None}),
}
_MANY = 8  # atoms: 256 cases are quickly looked at, more are not worth it


def shape_of(when: Scalar | None) -> Shape:
    """The boolean shape of a written guard; absent means always, unreadable means unknown."""
    if when is None:
        return Const(True)
    text = str(when.value)
    if not is_template(text):
        return Const(text.strip().lower() == "true")
    template = parsed(text)
    return template.shape if template is not None else Opaque(text)


def decided(shape: Shape, facts: Facts, assumed: Mapping[Shape, bool] | None = None) -> bool | None:
    """Whether a guard holds under the facts: True, False, or None when that depends on something else."""
    match shape:
        case Const():
            return shape.value
        case Not():
            part = decided(shape.part, facts, assumed)
            return None if part is None else not part
        case And():
            return _all(decided(part, facts, assumed) for part in shape.parts)
        case Or():
            holds = _all(_opposite(decided(part, facts, assumed)) for part in shape.parts)
            return _opposite(holds)
        case Compare():
            known = facts.get((shape.root, shape.path))
            told = _tested(shape, known) if known is not None else None
            return told if told is not None else (assumed or {}).get(shape)
        case Opaque():
            return (assumed or {}).get(shape)


def cover(shapes: Iterable[Shape], facts: Facts) -> bool:
    """Whether in every case that the facts leave open at least one of the guards holds."""
    either = Or(tuple(shapes))
    atoms = list(dict.fromkeys(atom for atom in tests_of(either) if decided(atom, facts) is None))
    if len(atoms) > _MANY:
        return decided(either, facts) is True
    cases = product((True, False), repeat=len(atoms))
    return all(decided(either, facts, dict(zip(atoms, case, strict=True))) is True for case in cases)


def _all(parts: Iterable[bool | None]) -> bool | None:
    told = list(parts)
    if any(part is False for part in told):
        return False
    return None if any(part is None for part in told) else True


def _opposite(value: bool | None) -> bool | None:
    return None if value is None else not value


def _tested(test: Compare, known: frozenset[object]) -> bool | None:
    match test.op:
        case "==" | "in":
            return any(value in known for value in test.values)
        case "!=" | "not in":
            return not any(value in known for value in test.values)
        case "truthy":
            return any(bool(each) for each in known)
        case "defined":
            return True
    return None


def tests_of(shape: Shape) -> Iterator[Compare | Opaque]:
    """The tests that a guard is made of, each where it stands."""
    match shape:
        case And() | Or():
            for part in shape.parts:
                yield from tests_of(part)
        case Not():
            yield from tests_of(shape.part)
        case Compare() | Opaque():
            yield shape


# Shadows: arcs of an exclusive router that an earlier one always takes first (VAL-20, ROUTE-03, ROUTE-05, C-09).


def check_shadows(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ARC_SHADOWED."""
    spec = playbook.executor.spec if playbook.executor else None
    everywhere = word(inner(spec, "unguarded"), "") == "always"
    for step in playbook.steps:
        if step.router is not None and step.router.mode == "exclusive":
            always = everywhere or word(inner(step.router.spec, "unguarded"), "") == "always"
            _check(step, step.router.arcs, always, playbook.dialect.rules, compilation)
    return playbook


def _check(
    step: StepSyntax, arcs: tuple[ArcSyntax, ...], always: bool, dialect: Dialect, compilation: Compilation
) -> None:
    """An unguarded arc takes every event but a failure; a guard that is always true takes that as well."""
    earlier: ArcSyntax | None = None
    for arc in arcs:
        if earlier is not None:
            takes_failures = always or earlier.when is not None
            if takes_failures or not _asks_for_failure(arc, step):
                _note(arc, earlier, dialect, compilation)
        elif arc.when is None or shape_of(arc.when) == Const(True):
            earlier = arc


def _asks_for_failure(arc: ArcSyntax, step: StepSyntax) -> bool:
    """Whether a guard reads the event and can hold for a failure."""
    template = parsed(str(arc.when.value)) if arc.when is not None and is_template(str(arc.when.value)) else None
    if template is None or not any(read.root == "event" for read in template.references):
        return False
    return decided(template.shape, {("event", ("name",)): names_of(FAILED, step)}) is not False


def _note(arc: ArcSyntax, earlier: ArcSyntax, dialect: Dialect, compilation: Compilation) -> None:
    inclusive = "next.spec.mode: inclusive" if dialect is Dialect.V10 else "spec.next_mode: inclusive"
    message = f'the arc to "{earlier.target.value}" (line {earlier.target.span.line}) always comes first'
    hint = f"move this arc before it, give that one a when, or write {inclusive} to take both"
    compilation.note("W_ARC_SHADOWED", arc.target, message, hint)


# Unmatched: outcomes and tokens that no rule takes, where that is probably not meant (VAL-20, POL-02, ADM-04).


def check_unmatched(playbook: Playbook, compilation: Compilation) -> Playbook:
    """W_ERROR_UNMATCHED and W_ADMIT_NO_ELSE."""
    spec = playbook.executor.spec if playbook.executor else None
    default = word(inner(spec, "policy", "defaults", "on_unmatched"), "continue")
    for task, pipeline in every_task(playbook):
        policy = task.policy
        if policy is None or policy.strict or task.generated or task.kind == "noop" or pipeline.is_hook:
            continue  # a noop has no errors
        if (policy.on_unmatched or default) == "continue":
            _check_errors(policy, compilation)
    for step in playbook.steps:
        if step.admit is not None:
            _check_admission(step.admit, compilation)
    return playbook


def _check_errors(policy: PolicySyntax, compilation: Compilation) -> None:
    if not cover((shape_of(rule.when) for rule in policy.rules), ERROR_OUTCOME):
        compilation.note(
            "W_ERROR_UNMATCHED",
            key_place(policy.node, "rules", head(policy)),
            "an error that none of these rules takes lets the pipeline go on",
            "add {when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}, or on_unmatched: fail",
        )


def _check_admission(admit: Admit, compilation: Compilation) -> None:
    if admit.rules and not any(shape_of(rule.when) == Const(True) for rule in admit.rules):
        compilation.note(
            "W_ADMIT_NO_ELSE",
            key_place(admit.node, "rules", head(admit)),
            "a token that matches none of these rules is denied",
            "add - else: {then: {allow: false}} to say so, or allow: true to let it in",
        )
