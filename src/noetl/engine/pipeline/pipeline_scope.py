"""Everything a pipeline can read besides its own position, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import written
from noetl.events.outcomes import TaskResult
from noetl.events.references import Reference
from noetl.events.secret_materials import Material
from noetl.events.tasks import Decided


class KeychainView:
    """`keychain` as templates and code read it: `keychain.name.field`; `keychain.name` is a secret of one text
    (KEY-03).

    Only what was fetched for the task is there. Nothing can be written through it."""

    __slots__ = ("_materials",)

    def __init__(self, materials: Mapping[str, Material]) -> None:
        self._materials = materials

    def lookup(self, name: str | int) -> Any:
        return MaterialView(self._materials[str(name)])

    def value(self) -> Any:
        return {name: dict(material.fields) for name, material in self._materials.items()}


class MaterialView:
    __slots__ = ("_material",)

    def __init__(self, material: Material) -> None:
        self._material = material

    def lookup(self, name: str | int) -> Any:
        return self._material.fields[str(name)]

    def value(self) -> Any:
        return self._material.text_or_fields()


Load = Callable[[Reference], Any]


def nothing_stored(reference: Reference) -> Any:
    """The loader of those who have no results store."""
    raise ToolError("result.missing", f"the stored result {reference.key} cannot be read here")


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """The iteration a pipeline belongs to. `names` are those of `iter` that nobody can overwrite: the element under
    its iterator, `index` and `parent` (SCOPE-08); `bare` the iterators as bare names (TPL-06), `iterator` its own."""

    path: tuple[int, ...]
    iterator: str
    names: dict[str, Any]
    bare: dict[str, Any]


class PipelineScope(msgspec.Struct, frozen=True, kw_only=True):
    """`results` are those of finished steps, by name; `load` fetches what one only refers to (RES-06). `keychain` is
    there only where a task that reads it is about to run, in a worker (KEY-03); `iteration` in a loop; `vars` in
    v2-eval, where the step run has some (V2E-05). `vars_in_ctx`: in v2-case they are the same store (C-05). `names`
    are further ones of the place that is rendered; `known` those that the playbook can define, None for any."""

    execution_id: str
    args: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    token: dict[str, Any]
    results: Mapping[str, TaskResult]
    load: Load = nothing_stored
    keychain: KeychainView | None = None
    iteration: Iteration | None = None
    vars: dict[str, Any] | None = None
    vars_in_ctx: bool = False
    names: dict[str, Any] = {}
    known: frozenset[str] | None = None

    def with_writes(self, decision: Decided, reduced: Collection[str] = ()) -> PipelineScope:
        """What the next task of the pipeline sees: with what the policy of this one wrote. Keys of `reduced` are
        contributions to a loop, which the iteration that makes them does not see (LOOP-14)."""
        around = self
        if decision.set_ctx:
            patch = {key: value for key, value in decision.set_ctx.items() if key not in reduced}
            around = msgspec.structs.replace(around, ctx=written(around.ctx, patch))
        if decision.set_vars:
            around = msgspec.structs.replace(around, vars=written(around.vars or {}, decision.set_vars))
        return around
