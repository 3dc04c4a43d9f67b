"""Step variables of v2-eval: where each of them lives in v10 (MIG-02, V2E-05, V2E-07).

v10 has no step-run scope. A variable that only the pipeline reads becomes part of `iter`; one that routing reads too,
or that outlives an iteration, becomes a key of `ctx` that carries its step's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from noetl.base.source import is_template
from noetl.base.template_names import paths
from noetl.language.migrating.notes import Notes
from noetl.language.reading.nodes import Mapping, Node, Scalar, scalars
from noetl.language.reading.playbook import StepSyntax, Sugar, Then


class VarPlacement(msgspec.Struct, frozen=True):
    """`homes` maps each variable to its new path (`iter.page`, `ctx.load_page`); `reducers` are its shared ones."""

    homes: dict[str, str]
    reducers: dict[str, str]

    @property
    def names(self) -> dict[str, str]:
        return {f"vars.{name}": home for name, home in self.homes.items()}


def step_vars(step: StepSyntax, notes: Notes) -> VarPlacement:
    written = _roots(_written(step, "set_vars"))
    shared = _written(step, "set_shared")
    routed = {path[1] for path in _reads(step.router.node if step.router else None) if len(path) > 1}
    read = {path[1] for path in _reads(step.node) if len(path) > 1}
    _check(step, set(written), set(shared), notes)
    for name in (name for name in written if is_template(name)):
        notes.blocked(written[name], "the name of this variable is computed", "give it one, or write set_ctx")
    homes: dict[str, str] = {}
    for name in dict.fromkeys([*written, *shared, *sorted(read)]):
        outlives = step.loop is not None and name in read  # the next iteration may read it
        if name in shared or name in routed or outlives or name not in written:
            homes[name] = f"ctx.{prefix(step.name)}_{name}"
        else:
            homes[name] = f"iter.{_free_name(step, name)}"
    for name, node in {**shared, **written}.items():
        message = f"the step variable {name} is now {homes[name]}"
        if homes[name].startswith("ctx."):
            message += ", which stays after the step"
        notes.changed(node, message)
    reducers = {homes[name].removeprefix("ctx."): _operation(step, name) for name in shared}
    return VarPlacement(homes, reducers)


def prefix(name: str) -> str:
    """A step's name as the beginning of a key."""
    return re.sub(r"\W+", "_", name).strip("_") or "step"


def _check(step: StepSyntax, written: set[str], shared: set[str], notes: Notes) -> None:
    if any(len(path) == 1 for path in _reads(step.node)):
        notes.blocked(step, "vars is read as a whole, and v10 has no vars", "name the variables that are meant")
    for name in sorted(written & shared):
        message = f"{name} is written by set_vars and by set_shared"
        notes.blocked(step, message, "give them two names; set_shared becomes loop.spec.policy.reducers")
    if shared and step.loop is None:
        notes.blocked(step, "set_shared outside a loop has nothing to fold", "write set_ctx")


def _thens(step: StepSyntax) -> Iterator[Then]:
    for task in step.tasks:
        if not isinstance(task, Sugar) and task.policy is not None:
            yield from (rule.then for rule in task.policy.rules)


def _written(step: StepSyntax, action: str) -> dict[str, Scalar]:
    """The variables an action writes anywhere in the step, each with its first place."""
    found: dict[str, Scalar] = {}
    for then in _thens(step):
        values: Mapping | None = getattr(then, action)
        for key, key_node, _ in values.items() if values is not None else ():
            found.setdefault(key, key_node)
    return found


def _roots(written: dict[str, Scalar]) -> dict[str, Scalar]:
    """The variables that dotted paths lead into: `page.number` writes a part of `page` (SCOPE-04)."""
    return {key.partition(".")[0]: node for key, node in reversed(written.items())}


def _operation(step: StepSyntax, name: str) -> str:
    for then in _thens(step):
        value = then.set_shared.get(name) if then.set_shared is not None else None
        operation = value.get("op") if isinstance(value, Mapping) else None
        if isinstance(operation, Scalar):
            return str(operation.value)
    return "last"


def _reads(node: Node | None) -> Iterator[tuple[str, ...]]:
    for scalar in scalars(node) if node is not None else ():
        if isinstance(scalar.value, str):
            yield from (path for path in paths(scalar.value) if path[0] == "vars")


def _free_name(step: StepSyntax, name: str) -> str:
    """The name itself, unless the pipeline already keeps something else under it in `iter`."""
    return f"vars_{name}" if name in _written(step, "set_iter") else name
