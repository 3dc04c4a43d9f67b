"""Shadows: arcs of an exclusive router that an earlier one always takes first (VAL-20, ROUTE-03, ROUTE-05, C-09)."""

from __future__ import annotations

from noetl.base.source import is_template
from noetl.language.compiling.boundary_events import FAILED, names_of
from noetl.language.compiling.guards import decided, shape_of
from noetl.language.compiling.lowering.values import inner, word
from noetl.language.compiling.parsed_templates import parsed
from noetl.language.compiling.passes import Compilation
from noetl.language.reading.playbook import ArcSyntax, Dialect, Playbook, StepSyntax
from noetl.templates.logic import Const


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
