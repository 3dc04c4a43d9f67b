"""Secrets of one order: what it was given, in memory for as long as it runs (KEY-03, KEY-05, KEY-07).

They are fetched from the server when a task is about to read them, and every one of them is made known to the mask
before anything can leave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.scopes import KeychainView, PipelineScope
from noetl.events.orders import Order, Position
from noetl.events.outcomes import TaskResult
from noetl.events.secret_materials import Ask, Material, secrets_in
from noetl.net.net import Net, Transition, tasks_of
from noetl.net.secret_reads import Reads, auths_in, credential_name
from noetl.net.task import Task
from noetl.worker.control_plane import ControlPlane

UNRESOLVED = "keychain.unresolved"
Credentials = Callable[[str], Mapping[str, Any]]
SECRETS = "secrets"
LookUp = Callable[[Task, Position], Awaitable[Any]]


class SecretStore:
    def __init__(
        self, order: Order, net: Net, control_plane: ControlPlane, mask: Mask, clock: Clock, worker_id: str
    ) -> None:
        self._order, self._control_plane, self._mask = order, control_plane, mask
        self._clock, self._worker_id = clock, worker_id
        self._declared = [entry.name for entry in net.keychain]
        # Goes with the order: no secret stays in the memory of a worker longer than the work that needs it.
        self._held: dict[str, Material] = {}

    async def scope_with_secrets(self, reads: Reads, around: PipelineScope) -> PipelineScope:
        """The surroundings with what a task reads of the keychain. ToolError when an entry does not resolve."""
        names = self._declared if reads.everything else [name for name in self._declared if name in reads.names]
        materials = {name: await self._material(name) for name in names}
        return msgspec.structs.replace(around, keychain=KeychainView(materials))

    async def credentials(self, inputs: Mapping[str, Any]) -> Credentials:
        """Looks up the credentials that the inputs name; whoever asks for one that does not resolve gets its error.
        What stands there itself instead of a name is as secret as if it had been looked up."""
        found: dict[str, Material | ToolError] = {}
        for auth in auths_in(inputs):
            name = credential_name(auth)
            if isinstance(auth, dict) or name is None:
                fields = auth if isinstance(auth, dict) else {"auth": auth}
                self._mask.learn(secrets_in(Material(fields={k: v for k, v in fields.items() if k != "credential"})))
            if name is not None:
                found[name] = await self._credential(name)

        def resolve(name: str) -> Mapping[str, Any]:
            material = found.get(name) or _not_named(name)
            if isinstance(material, ToolError):
                raise material
            return material.fields

        return resolve

    async def _credential(self, name: str) -> Material | ToolError:
        try:
            return await self._material(name)
        except ToolError as problem:
            return problem

    async def looked_up(self, name: str, kind: str, lookup: dict[str, Any]) -> Material:
        return await self._requested_material(name, kind=kind, lookup=lookup)

    async def renew(self, name: str) -> None:
        self._held[name] = await self._requested_material(name, renew=True)

    async def _material(self, name: str) -> Material:
        held = self._held.get(name)
        # A token is fetched again shortly before it expires, so that a task does not fail in the middle.
        if held is None or held.due(self._clock.now()):
            held = self._held[name] = await self._requested_material(name)
        return held

    async def _requested_material(self, name: str, **more: Any) -> Material:
        ask = Ask(
            execution_id=self._order.execution_id,
            order_id=self._order.order_id,
            lease_epoch=self._order.lease_epoch,
            worker_id=self._worker_id,
            name=name,
            **more,
        )
        material = await self._control_plane.secret(ask)
        # Before anybody reads it: what a task prints is masked from its first byte on.
        self._mask.learn(secrets_in(material))
        return material


def no_credentials(name: str) -> Mapping[str, Any]:
    """Of a task whose inputs name none."""
    raise _not_named(name)


def _not_named(name: str) -> ToolError:
    return ToolError(UNRESOLVED, f'the credential "{name}" is not named by this task')


# What `secrets` tasks had looked up, when an interrupted pipeline goes on (TOOL-09, WRK-04).
#
# The log holds `***` in their place, and a task that went on with that would send it to the world. So they are looked
# up once more, silently: it was recorded that they ran, and they change nothing.


async def recalled(step: Transition, position: Position, look_up: LookUp) -> Position:
    """The position with the true results of its `secrets` tasks. ToolError where one is gone meanwhile."""
    if not position.results:
        return position  # it begins here
    for task in tasks_of(step):
        old = position.results.get(task.name) if task.kind == SECRETS else None
        if old is None or old.error is not None or not _looked_up(old):
            continue
        new = msgspec.structs.replace(old, result=await look_up(task, position))
        position = msgspec.structs.replace(
            position,
            results={**position.results, task.name: new},
            prev=new if position.prev == old else position.prev,
        )
    return position


def looked_up_names(step: Transition, position: Position) -> set[str]:
    """The names under which a task reads what `secrets` tasks of its pipeline have looked up."""
    names = {task.name for task in tasks_of(step) if task.kind == SECRETS and task.name in position.results}
    if any(position.results[name] is position.prev for name in names):
        names.add("_prev")
    if position.case is not None and position.case.result_of in names:
        names |= {"result", "response", "this", "page", step.name}
    return names


def _looked_up(result: TaskResult) -> bool:
    """Whether it holds a secret's fields; the result of a refresh names its entry only."""
    return isinstance(result.result, dict) and "refreshed" not in result.result
