"""Targets: every route leads to a step of this playbook (VAL-02, C-27, C-40)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.base.diagnostics import PositionedDiagnostic
from noetl.language.compiling.parsed_templates import parsed
from noetl.language.compiling.passes import Compilation
from noetl.language.compiling.text_positions import name_in
from noetl.language.reading.nodes import Mapping, Scalar, scalars
from noetl.language.reading.playbook import ArcSyntax, CaseExit, Dialect, Playbook, StepSyntax
from noetl.language.reading.shared_checks import nearest

END = "end"


def check_targets(playbook: Playbook, compilation: Compilation) -> Playbook:
    """E_NEXT_REF, with the nearest step and its line."""
    lines = {step.name: step.name_node.span.line for step in playbook.steps}
    if playbook.dialect is Dialect.V2_CASE:
        lines.setdefault(END, 0)  # an implicit terminal place (C-40)
    for step in playbook.steps:
        for arc in arcs_of(step):
            for name in candidates(arc) if arc.template else (str(arc.target.value),):
                place = name_in(arc.target, name, playbook.source, quoted=True) if arc.template else arc.target
                _check(name, place, "this arc leads to", lines, compilation)
        for place, verb in _other_targets(step):
            _check(str(place.value), place, verb, lines, compilation)
    return playbook


def arcs_of(step: StepSyntax) -> Iterator[ArcSyntax]:
    """The router's arcs, then those of case rules."""
    yield from step.router.arcs if step.router else ()
    for rule in step.case.rules if step.case else ():
        for action in rule.actions:
            if isinstance(action, CaseExit):
                yield from action.targets


def candidates(arc: ArcSyntax) -> tuple[str, ...]:
    """The targets a computed one can have, where that is plain to see: a constant, or a choice of constants."""
    template = parsed(str(arc.target.value))
    names = (choice for choice in template.choices if isinstance(choice, str)) if template else ()
    return tuple(dict.fromkeys(names))


def _other_targets(step: StepSyntax) -> Iterator[tuple[Scalar, str]]:
    if step.timeout and step.timeout.alternative:
        yield step.timeout.alternative, "alternative_step leads to"
    for arc in arcs_of(step):
        cancel = arc.spec.get("cancel") if isinstance(arc.spec, Mapping) else None
        for place in scalars(cancel) if cancel is not None else ():
            if place.value != "execution":
                yield place, "cancel names"


def _check(name: str, place: PositionedDiagnostic, verb: str, lines: dict[str, int], compilation: Compilation) -> None:
    if name in lines:
        return
    guess = nearest(name, list(lines))
    where = f" (line {lines[guess]})" if guess and lines[guess] else ""
    hint = f'did you mean "{guess}"{where}?' if guess else f"add - step: {name}, or lead to one of {', '.join(lines)}"
    if not guess and len(lines) > 8:
        hint = f"add - step: {name}"
    compilation.note("E_NEXT_REF", place, f'{verb} "{name}", which is not a step here', hint)
