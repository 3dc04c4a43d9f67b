"""Starting: finds the playbook that is meant, begins an execution of it, and answers a repeated request as the first
one (SRV-02, SRV-10, reliability.md §3.4).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import BackendError, NoRerunError, RefusedError
from noetl.base.ids import uuid7
from noetl.control.claiming.order_needs import check_runnable
from noetl.control.nested.reruns import state_at_step
from noetl.engine.rerun_state import ApprovedInputs, Consent
from noetl.events.executions import RerunState
from noetl.events.traces import TraceParent
from noetl.net.net import Net, from_json
from noetl.operations.catalog import catalog_id, registered_version
from noetl.operations.results import execution_ending
from noetl.server.idempotency import IdempotencyKeys, digest, named
from noetl.server.playbook_texts import DiagnosticView, PlaybookText, all_shown, checked, diagnostics_of, refused
from noetl.server.problem_details import ProblemDetails, too_busy, unknown
from noetl.server.services import Services
from noetl.server.views.states import whole_events
from noetl.store.installation import CatalogRow

if TYPE_CHECKING:
    from noetl.language.checking import Checked  # the language is loaded by the first request that needs it

# Proxies lose patience after that; who wants to wait longer asks again.
MAX_WAIT_S = 60.0
_ROUTE = "POST /api/executions"


class RerunSource(msgspec.Struct, frozen=True, kw_only=True):
    """An execution, and the step of it to begin at. `failed_items`: of its loop only those that were not done."""

    execution_id: str
    step: str
    failed_items: bool = False


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` with `version` (a number, or the author's label; the newest without), or `playbook_id`, the catalogue's
    "path@version". `wait`: seconds to wait for its end before answering."""

    path: str | None = None
    playbook_id: str | None = None
    version: str | int | None = None
    payload: dict[str, Any] = {}
    wait: float = 0.0


class DraftRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source` is the text of a playbook, which is run as it is and not registered."""

    source: str
    payload: dict[str, Any] = {}


class StartedDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An execution of a text that is in no catalogue. `diagnostics` are the warnings about it."""

    execution_id: str
    path: str
    diagnostics: list[DiagnosticView] = []


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """`result` and `error` are told when it ended within `wait`. `diagnostics` are the warnings about the playbook's
    text, as `POST /api/catalog` told them when it was registered."""

    execution_id: str
    path: str
    version: int
    catalog_id: str
    status: str
    trace_id: str
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[DiagnosticView] = []


async def start(
    services: Services,
    asked: StartRequest,
    *,
    subject: str,
    key: str | None,
    source: RerunSource | None = None,
    consent: Consent | None = None,
    caller: TraceParent | None = None,
) -> tuple[bytes, bool]:
    """The answer as JSON, and whether it is that of an earlier request with the same key. With `source` it begins where
    that one was, and `consent` says who may approve it anew; with `caller` it belongs to that one's trace."""
    _check_load(services)
    if key is None:
        row = await requested_version(services, asked)
        execution_id = uuid7(services.clock.now())
        async with services.listeners.usage.starting(execution_id, subject):
            await begin(services, row, execution_id, asked.payload, source, consent, caller)
        return await _answer(services, row, execution_id, asked.wait), False
    keys, name = IdempotencyKeys(services.store.key_values, services.clock), named(subject, _ROUTE, key)
    row = await requested_version(services, asked)
    # Reserved with the id of the execution before it is begun: whoever repeats the request after a crash begins the
    # same one, or finds it.
    kept, repeated = await keys.reserve(
        name, digest(asked if source is None else (asked, source)), f"{uuid7(services.clock.now())} {row.version}"
    )
    if kept.answer is not None:
        return kept.answer.encode(), True
    execution_id, _, version = kept.created.partition(" ")
    row = await services.store.catalog.find(row.path, version) or row  # the one that was newest at the first request
    if not repeated or await services.store.execution(execution_id) is None:
        try:
            async with services.listeners.usage.starting(execution_id, subject):
                await _begin_once(services, row, execution_id, asked.payload, source, consent, caller)
        except (RefusedError, ProblemDetails):
            # Nothing was begun: the client may mend its request and use the key again.
            await keys.release(name)
            raise
    answer = await _answer(services, row, execution_id, asked.wait)
    await keys.store_answer(name, answer)
    return answer, repeated


async def _begin_once(
    services: Services,
    row: CatalogRow,
    execution_id: str,
    payload: dict[str, Any],
    source: RerunSource | None,
    consent: Consent | None,
    caller: TraceParent | None,
) -> None:
    """Begin it, unless whoever sent the same request at the same moment has."""
    try:
        await begin(services, row, execution_id, payload, source, consent, caller)
    # The loser of two equal requests gets a conflict, and a lost answer looks like a failure. If the execution is
    # there, either is a success.
    except BackendError:
        if await services.store.execution(execution_id) is None:
            raise


async def requested_version(services: Services, asked: StartRequest) -> CatalogRow:
    """The version that is meant. Problem 404 when there is none, 422 when it cannot be told which."""
    if (asked.path is None) == (asked.playbook_id is None):
        raise ProblemDetails(422, "name the playbook by path, or by playbook_id")
    if asked.playbook_id is not None:
        if asked.version is not None:
            raise ProblemDetails(422, "playbook_id names the version already")
        path, _, version = asked.playbook_id.rpartition("@")
        row = await services.store.catalog.find(path, version) if path else None
        if row is None or str(row.version) != version:
            raise unknown("playbook", asked.playbook_id)
        return row
    assert asked.path is not None
    return await registered_version(services.store.catalog, asked.path, asked.version)


async def begin(
    services: Services,
    row: CatalogRow,
    execution_id: str,
    payload: dict[str, Any],
    source: RerunSource | None = None,
    consent: Consent | None = None,
    caller: TraceParent | None = None,
) -> None:
    """Begin an execution of a registered version; once this returns, it is durable (P1)."""
    net = await net_of(services, row)
    carried = None
    if source is not None:
        inputs = ApprovedInputs(net_hash=row.net_hash, payload=payload)
        carried = await _taken_over(services, net, source, inputs, consent or Consent(actor=""))
    trace_id = caller.trace_id if caller is not None else execution_id.replace("-", "")
    if services.listeners.tracing is not None and caller is not None:
        await services.listeners.tracing.asked_by(execution_id, caller, services.clock.now())
    # Counted around the commit: what `_check_load` bounds is how many wait for the store.
    services.starting += 1
    try:
        await services.control.executions.start(
            net, execution_id=execution_id, trace_id=trace_id, payload=payload, carried=carried
        )
    finally:
        services.starting -= 1


async def checked_draft(services: Services, source: str) -> Checked:
    """A text that can be run here without being registered. Problem 422 says what is wrong with it."""
    _check_load(services)
    found = await checked(PlaybookText(source=source))
    if found.net is None or found.refusals:
        raise refused(found)
    await _check_runnable(found.net, services)
    return found


async def start_net(
    services: Services,
    found: Checked,
    net: Net,
    payload: dict[str, Any],
    *,
    subject: str,
    caller: TraceParent | None,
    carried: RerunState | None = None,
) -> StartedDraft:
    """Begin an execution of a net that is in no catalogue. Neither the newest version of its path nor its schedule is
    another after it."""
    execution_id = uuid7(services.clock.now())
    trace_id = caller.trace_id if caller is not None else execution_id.replace("-", "")
    async with services.listeners.usage.starting(execution_id, subject):
        await services.control.executions.start(
            net, execution_id=execution_id, trace_id=trace_id, payload=payload, carried=carried
        )
    shown = all_shown(found.diagnostics, found.source)
    return StartedDraft(execution_id=execution_id, path=net.path, diagnostics=shown)


async def net_of(services: Services, row: CatalogRow) -> Net:
    """The net of a version, which can be run here. Problem 422 says why not."""
    net: Net | None = services.nets.get(row.net_hash)
    if net is None:
        net = from_json(await services.store.net(row.net_hash))
        # Cleared as a whole: it only saves decoding, and a net in use is decoded again at the next start.
        if len(services.nets) >= 500:
            services.nets.clear()
        services.nets[row.net_hash] = net
    await _check_runnable(net, services)
    return net


async def _check_runnable(net: Net, services: Services) -> None:
    try:
        check_runnable(net, services.tools)
    except RefusedError:
        await _check_elsewhere(net, services)


async def _check_elsewhere(net: Net, services: Services) -> None:
    """What is not run here may be run by a worker on another machine, of this server or of another one."""
    await services.roster.list()
    try:
        check_runnable(net, services.tools, services.roster.kinds)
    except RefusedError as problem:
        raise ProblemDetails(422, f"no worker of this server can run it: {problem}", kind="not-runnable") from None


def _check_load(services: Services) -> None:
    """429 while more is asked for than can be stored (reliability.md §3.7)."""
    settings = services.settings
    if services.starting >= settings.max_starts_at_once:
        raise too_busy("too many executions are being started at once", random.randint(1, 3))  # noqa: S311
    # Only while others are starting: one is always let through, or nothing would show that the store is quick again.
    if services.starting and services.listeners.meters.commit_s > settings.slow_commit_s:
        raise too_busy("the store is slow at the moment", random.randint(2, 6))  # noqa: S311


async def _answer(services: Services, row: CatalogRow, execution_id: str, wait_s: float) -> bytes:
    ended = await services.listeners.hub.ended(execution_id, max(0.0, min(wait_s, MAX_WAIT_S)))
    assert ended is not None, "it was stored a moment ago"
    told = None
    if wait_s and ended.finished_at is not None:
        ending = await execution_ending(services.store, services.control.executions.values, ended)
        told = ending.view(execution_id)
    return msgspec.json.encode(
        Started(
            execution_id=execution_id,
            path=row.path,
            version=row.version,
            catalog_id=catalog_id(row.path, row.version),
            status=ended.status,
            trace_id=ended.trace_id,
            result=told.result if told is not None else None,
            error=told.error if told is not None else None,
            diagnostics=await diagnostics_of(services, row),
        )
    )


async def _taken_over(
    services: Services, net: Net, source: RerunSource, inputs: ApprovedInputs, consent: Consent
) -> RerunState:
    """What a rerun from a step begins with (CLI-04). Problem 422 says why there is nothing to begin with."""
    row = await services.store.execution(source.execution_id)
    assert row is not None, "it was found by the request"
    events = await whole_events(services, row, await services.store.events(row.execution_id))
    try:
        return await state_at_step(
            services.store, row, source.step, events, net, inputs, consent, failed_items=source.failed_items
        )
    except NoRerunError as problem:
        raise ProblemDetails(422, f"from: {problem}", kind="from") from None
