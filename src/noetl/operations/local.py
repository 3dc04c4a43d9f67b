"""The operations on a store of this machine, without a server: the calls of `noetl.client.AsyncClient`, with the same
answers. The command line uses one or the other and does not know which (`cli/connection.py`).

A user who can write the store needs no token; the log records the user's name on this machine. A new call belongs in
both classes, and its rules in another module of `operations/`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.clock import SystemClock
from noetl.base.errors import InvalidError, NotFoundError
from noetl.operations import administration_shapes, api_shapes
from noetl.operations.attempt_shapes import AttemptInputs, AttemptPage, ExecutionComparison
from noetl.operations.local_administration import LocalAdministration
from noetl.store.contract import ExecutionRow
from noetl.store.open_store import open_store

if TYPE_CHECKING:
    from noetl.control.outside.delivery import MessageDelivery
    from noetl.control.outside.human_tasks import HumanTasks
    from noetl.engine.execution import Execution
    from noetl.events.envelope import Event
    from noetl.language.checking import Checked
    from noetl.operations.local_commands import LocalCommands
    from noetl.operations.triggers import ScheduleOperations

# How long a sender waits for the delivery of a message. A process that drives executions looks for messages every half
# second, so 3 s allow for a busy machine.
_DELIVERY_S, _POLL_S = 3.0, 0.05


@asynccontextmanager
async def local_operations(
    db: str | None, *, actor: str | None = None, roles: Sequence[str] = ()
) -> AsyncIterator[LocalOperations]:
    """Open the store `db`. A read-only file is enough for calls that only read."""
    store, results = await open_store(db, reading_will_do=True)
    try:
        yield LocalOperations(store, results, SystemClock(), actor=actor or user_name(), roles=roles)
    finally:
        results.close()
        await store.close()


def user_name() -> str:
    """The name of the user on this machine; empty if there is none."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return ""


class LocalOperations(LocalAdministration):
    """`actor` and `roles` identify the user, for actions on human tasks, timers and limits."""

    # Imports inside the calls keep the start of a command quick: each part loads with its first call.

    @cached_property
    def _commands(self) -> LocalCommands:
        from noetl.operations.local_commands import LocalCommands

        return LocalCommands(self.store, self.results, self._clock)

    @cached_property
    def _deliveries(self) -> MessageDelivery:
        from noetl.control.outside.delivery import MessageDelivery

        return MessageDelivery(self._commands, self.store, self._clock)

    @cached_property
    def _inbox(self) -> HumanTasks:
        from noetl.control.outside.human_tasks import HumanTasks

        return HumanTasks(self._commands, self.store, self._clock)

    @cached_property
    def _schedules(self) -> ScheduleOperations:
        from noetl.operations.triggers import ScheduleOperations

        return ScheduleOperations(self.store, self._clock)

    # executions

    async def pause(self, execution_id: str, reason: str | None = None) -> api_shapes.Steered:
        return await self._control(execution_id, "pause", reason)

    async def resume(self, execution_id: str, reason: str | None = None) -> api_shapes.Steered:
        return await self._control(execution_id, "resume", reason)

    async def cancel(
        self, execution_id: str, reason: str | None = None, *, compensate: bool = False
    ) -> api_shapes.Steered:
        return await self._control(execution_id, "compensate" if compensate else "cancel", reason)

    async def _control(self, execution_id: str, action: str, reason: str | None) -> api_shapes.Steered:
        from noetl.operations.executions import control_result

        row = await self._execution(execution_id)
        verdict = await self._commands.control(row, action, reason, actor=self._actor or None)
        return await control_result(self.store, row, action, verdict)

    async def events(self, execution_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        from noetl.operations.executions import event_pages, followed_events

        pages = followed_events if follow else event_pages
        async for page in pages(self.store, execution_id, after=after):
            for event in page:
                yield event

    async def result(self, execution_id: str, *, step: str | None = None) -> api_shapes.ResultView:
        from noetl.operations.results import LoadableValues, execution_ending, step_ending

        row, values = await self._execution(execution_id), LoadableValues(self.results)
        if step is not None:
            return (await step_ending(self.store, values, row, step)).view(execution_id, step)
        return (await execution_ending(self.store, values, row)).view(execution_id)

    async def explain(self, execution_id: str) -> dict[str, Any]:
        from noetl.operations.executions import explanation_of

        row = await self._execution(execution_id)
        explanation = await explanation_of(self.store, row, await self._replay(row), self._clock.now())
        fields: dict[str, Any] = msgspec.to_builtins(explanation)
        return fields

    async def attempts(
        self, execution_id: str, *, step: str | None = None, task: str | None = None, after: int = 0, limit: int = 200
    ) -> AttemptPage:
        from noetl.operations.attempt_inputs import attempt_page

        row = await self._execution(execution_id)
        return await attempt_page(self.store, row.execution_id, step=step, task=task, after=after, limit=limit)

    async def attempt_inputs(self, execution_id: str, seq: int, *, against: str | None = None) -> AttemptInputs:
        from noetl.operations.attempt_inputs import LocalSources, attempt_inputs

        row = await self._execution(execution_id)
        other = await self._execution(against) if against is not None else None
        return await attempt_inputs(LocalSources(self.store, self.results), row, seq, against=other)

    async def compare(self, execution_id: str, *, against: str | None = None) -> ExecutionComparison:
        from noetl.operations.comparisons import compare_executions

        row = await self._execution(execution_id)
        other = await self._execution(against) if against is not None else None
        return await compare_executions(self.store, row, other, self._replay)

    async def cost(self, source: str, *, path: str | None = None) -> dict[str, Any]:
        from noetl.base.diagnostics import Source
        from noetl.language.checking import check
        from noetl.operations.net_cost import StepDurations, net_cost
        from noetl.tools.kinds import load_kinds

        net = check(Source("text", source), kinds=load_kinds(), proofs=False).net
        if net is None:
            raise InvalidError("the text is not a valid playbook")
        history = await StepDurations(self.store).recent(path or net.path)
        fields: dict[str, Any] = msgspec.to_builtins(net_cost(net, path or net.path, history))
        return fields

    async def _replay(self, row: ExecutionRow) -> Execution:
        """The state of an execution, replay from its log: this process has no executions in memory."""
        from noetl.engine.evolve import replay
        from noetl.events.envelope import with_stored_values

        events = [with_stored_values(event, self.results.load) for event in await self.store.events(row.execution_id)]
        return replay(row.execution_id, row.trace_id, events)

    async def _execution(self, execution_id: str) -> ExecutionRow:
        if (row := await self.store.execution(execution_id)) is None:
            raise NotFoundError(f'there is no execution "{execution_id}" here')
        return row

    # the catalogue

    async def register(self, source: str | Path | Checked, *, schedule: bool = True) -> api_shapes.PlaybookInfo:
        from noetl.language.checking import Checked, checked_playbook
        from noetl.operations.catalog import register_playbook

        # The command passes a text that it has checked already: proofs of a large playbook take seconds.
        checked = source if isinstance(source, Checked) else checked_playbook(source)
        assert checked.net is not None, "a text with errors is refused before it gets here"
        file = Path(checked.source.name)
        version = await register_playbook(
            self.store,
            checked.net,
            source=checked.source.text,
            at=self._clock.now(),
            # Standard input and plain text have no file.
            origin=file if file.exists() else None,
            schedule=schedule,
        )
        return version.info()

    async def playbooks(self, *, limit: int = 200) -> list[api_shapes.VersionView]:
        from noetl.operations.catalog import newest_versions

        return await newest_versions(self.store, limit=limit)

    async def versions(self, path: str) -> list[api_shapes.VersionView]:
        from noetl.operations.catalog import playbook_versions

        return await playbook_versions(self.store, path)

    async def source(self, path: str, version: str | int | None = None) -> str:
        from noetl.operations.catalog import playbook_source

        return await playbook_source(self.store.catalog, path, version)

    # schedules

    async def schedules(self) -> administration_shapes.ScheduleList:
        return await self._schedules.list()

    async def schedule(self, path: str, *, count: int = 5) -> administration_shapes.ScheduleView:
        return await self._schedules.get(path, count)

    async def pause_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return await self._schedules.pause(path)

    async def resume_schedule(self, path: str) -> administration_shapes.ScheduleView:
        return await self._schedules.resume(path)

    async def backfill(
        self, path: str, since: str, until: str | None = None, *, limit: int = 5, dry_run: bool = False
    ) -> administration_shapes.Backfilled:
        return await self._schedules.backfill(path, since, until, limit=limit, dry_run=dry_run)

    # messages, signals, events, timers

    async def send_message(
        self,
        name: str,
        correlation: Mapping[str, Any] | None = None,
        payload: Any = None,
        *,
        message_id: str | None = None,
        ttl: float | None = None,
    ) -> dict[str, Any]:
        """Store a message. The process that drives the execution waiting for it takes it from the store."""
        from noetl.control.background.presence import is_anybody_there
        from noetl.control.outside.delivery import MESSAGE_TTL_S, keep, new_message
        from noetl.store.waits import MESSAGE, parts_of

        message = new_message(
            name,
            dict(correlation or {}),
            payload,
            message_id=message_id,
            ttl_s=MESSAGE_TTL_S if ttl is None else ttl,
            now=self._clock.now(),
        )
        # Store the message before looking for a receiver: a process that starts in between finds it.
        is_new = await keep(self.store, message)
        waits = await self.store.waits.waiting(MESSAGE, name, parts_of(message.correlation))
        until = time.monotonic() + _DELIVERY_S
        # Poll only while an execution waits for the message and some process is alive that could take it.
        while (
            (taken_by := await self._receiver(message.message_id)) is None
            and waits
            and await is_anybody_there(self.store.key_values, now=self._clock.now())
            and time.monotonic() < until
        ):
            await asyncio.sleep(_POLL_S)
        return {"message_id": message.message_id, "delivered_to": taken_by, "known": not is_new}

    async def _receiver(self, message_id: str) -> str | None:
        row = await self.store.waits.message(message_id)
        return row.taken_by if row is not None else None

    async def messages(
        self, *, name: str | None = None, limit: int = 200, cursor: str | None = None
    ) -> api_shapes.StoredMessagePage:
        from noetl.operations.waits import message_page

        return await message_page(self.store.waits, now=self._clock.now(), name=name, limit=limit, cursor=cursor)

    async def delete_message(self, message_id: str) -> None:
        from noetl.operations.waits import delete_message

        await delete_message(self.store.waits, message_id, now=self._clock.now())
        await self._append_audit("message delete", message_id)

    async def delete_messages(self, name: str) -> int:
        if number := await self.store.waits.remove_named(name, now=self._clock.now()):
            await self._append_audit("message delete", f"name {name}")
        return number

    async def send_signal(
        self, name: str, data: Any = None, *, execution_id: str | None = None, signal_id: str | None = None
    ) -> list[str]:
        return await self._deliveries.send_signal(name, data, execution_id=execution_id, signal_id=signal_id)

    async def inject(self, execution_id: str, name: str, data: Any = None, *, key: str | None = None) -> bool:
        return await self._deliveries.inject(execution_id, name, data, event_key=key)

    async def timers(self, execution_id: str | None = None) -> list[api_shapes.TimerView]:
        from noetl.operations.waits import running_timers

        return await running_timers(self.store, execution_id)

    async def cancel_timer(self, timer_id: str) -> bool:
        if (execution_id := await self.store.timed(timer_id)) is None:
            raise NotFoundError(f'there is no timer "{timer_id}" here')
        return await self._deliveries.cancel_timer(execution_id, timer_id, actor=self._actor)

    # human tasks

    async def task_page(self, **filters: Any) -> api_shapes.TaskPage:
        from noetl.operations.waits import TaskFilter, task_page
        from noetl.store.human_tasks import TaskState

        limit, cursor = filters.pop("limit", 100), filters.pop("cursor", None)
        if states := filters.pop("state", None):
            filters["states"] = [TaskState(state) for state in states]
        wanted = TaskFilter(**filters)
        return await task_page(
            self.store.tasks, wanted, actor=self._actor, roles=self._roles, limit=limit, cursor=cursor
        )

    async def task(self, task_id: str) -> api_shapes.TaskView:
        from noetl.operations.waits import task_view

        return task_view(await self._inbox.get(task_id))

    async def claim_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        from noetl.operations.waits import task_view

        return task_view(await self._inbox.claim(task_id, actor=self._actor, roles=self._roles, version=version))

    async def release_task(self, task_id: str, *, version: int | None = None) -> api_shapes.TaskView:
        from noetl.operations.waits import task_view

        # Whoever may open the store is its administrator (`who_am_i`).
        released = await self._inbox.release(
            task_id, actor=self._actor, roles=self._roles, version=version, is_admin=True
        )
        return task_view(released)

    async def comment_task(self, task_id: str, text: str) -> api_shapes.TaskView:
        from noetl.operations.waits import task_view

        return task_view(await self._inbox.comment(task_id, text, actor=self._actor, roles=self._roles))

    async def complete_task(
        self, task_id: str, values: Mapping[str, Any], *, version: int | None = None
    ) -> api_shapes.TaskView:
        from noetl.operations.waits import task_view

        done = await self._inbox.complete(task_id, dict(values), actor=self._actor, roles=self._roles, version=version)
        return task_view(done)

    # limits

    async def playbook_limits(self, path: str | None = None) -> list[api_shapes.PlaybookLimitView]:
        from noetl.control.playbook_limits import PlaybookLimits
        from noetl.operations.limits import playbook_limits

        return await playbook_limits(self.store.key_values, PlaybookLimits(self.store.key_values, self._clock), path)

    async def limit_playbook(self, path: str, limit: int, *, reason: str | None = None) -> bool:
        return await self._limit_playbook(path, limit, reason)

    async def reset_playbook_limit(self, path: str) -> bool:
        return await self._limit_playbook(path, None, None)

    async def _limit_playbook(self, path: str, limit: int | None, reason: str | None) -> bool:
        from noetl.control.playbook_limits import PlaybookLimits
        from noetl.operations.limits import limit_playbook

        limits = PlaybookLimits(self.store.key_values, self._clock)
        return await limit_playbook(self.store, limits, path, limit, actor=self._actor, reason=reason)

    async def step_limits(self, execution_id: str) -> list[api_shapes.StepLimitView]:
        from noetl.net.net import from_json
        from noetl.operations.limits import step_limits

        row = await self._execution(execution_id)
        net = from_json(await self.store.net(row.net_hash))
        return step_limits(net, await self._replay(row))

    async def limit_step(self, execution_id: str, step: str, **settings: Any) -> bool:
        from noetl.engine.commands import ChangeLimit
        from noetl.events.control import StepRate
        from noetl.operations.limits import limit_step

        if (rate := settings.get("rate")) is not None:
            settings["rate"] = StepRate(limit=rate["limit"], per_s=rate["per"])
        command = ChangeLimit(at=self._clock.now(), step=step, actor=self._actor, **settings)
        return await limit_step(self._commands, execution_id, command)
