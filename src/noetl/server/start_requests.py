"""Start requests: finding the playbook, beginning an execution, and answering a repeated request like the first one
(SRV-02, SRV-10, reliability.md §3.4).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.errors import BackendError, NoRerunError, RefusedError
from noetl.base.ids import uuid7
from noetl.control.claiming.orders import check_runnable
from noetl.control.nested.reruns import state_at_step
from noetl.engine.lifecycle import check_required_inputs
from noetl.engine.rerun_state import ApprovedInputs, Consent
from noetl.events.envelope import TraceParent
from noetl.events.executions import RerunState, Starter
from noetl.net.net import Net, from_json
from noetl.operations.catalog import catalog_id, registered_version
from noetl.operations.results import execution_ending
from noetl.server import playbook_texts
from noetl.server.idempotency import IdempotencyKeys, digest, key_name
from noetl.server.problem_details import ProblemDetails, not_found, too_busy
from noetl.server.services import Services
from noetl.server.views.states import whole_events
from noetl.store.installation import CatalogRow

if TYPE_CHECKING:
    from noetl.language.checking import Checked  # the language is loaded by the first request that needs it

# Proxies close longer requests; a client that wants to wait longer asks again.
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
    """The execution of an unregistered text. `diagnostics` are the warnings about the text."""

    execution_id: str
    path: str
    diagnostics: list[playbook_texts.DiagnosticView] = []


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """`result` and `error` are set if the execution ended within `wait`. `diagnostics` are the warnings about the
    playbook's text, as in the answer of `POST /api/catalog`."""

    execution_id: str
    path: str
    version: int
    catalog_id: str
    status: str
    trace_id: str
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[playbook_texts.DiagnosticView] = []


class StartTerms(msgspec.Struct, frozen=True):
    """The inputs and options of a start, and who requested it."""

    payload: dict[str, Any]
    starter: Starter
    source: RerunSource | None = None  # it begins at a step of an earlier execution
    consent: Consent | None = None  # the approval for that
    caller: TraceParent | None = None  # it joins this trace


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
    """The answer as JSON, and whether it is that of an earlier request with the same key."""
    # Check the load before any query: an overloaded server must be able to refuse cheaply.
    _check_load(services)
    terms = StartTerms(asked.payload, Starter(kind="user", name=subject), source, consent, caller)
    if key is not None:
        return await _start_with_key(services, asked, terms, subject, key)
    row = await requested_version(services, asked)
    execution_id = uuid7(services.clock.now())
    async with services.listeners.usage.starting(execution_id, subject):
        await begin(services, row, execution_id, terms)
    return await _answer(services, row, execution_id, asked.wait), False


async def _start_with_key(
    services: Services, asked: StartRequest, terms: StartTerms, subject: str, key: str
) -> tuple[bytes, bool]:
    keys, name = IdempotencyKeys(services.store.key_values, services.clock), key_name(subject, _ROUTE, key)
    row = await requested_version(services, asked)
    # Reserve the key with the id of the execution before the start: a request that is repeated after a crash begins or
    # finds the same execution.
    stored, repeated = await keys.reserve(
        name,
        digest(asked if terms.source is None else (asked, terms.source)),
        f"{uuid7(services.clock.now())} {row.version}",
    )
    if stored.answer is not None:
        return stored.answer.encode(), True
    # Id and version were chosen by the first request; the choices of this one are dropped.
    execution_id, _, version = stored.created.partition(" ")
    row = await services.store.catalog.find(row.path, version) or row  # the one that was newest at the first request
    # A repeat without an answer may find nothing begun: the server died between key and start.
    if not repeated or await services.store.execution(execution_id) is None:
        try:
            async with services.listeners.usage.starting(execution_id, subject):
                await _begin_once(services, row, execution_id, terms)
        except (RefusedError, ProblemDetails):
            # Nothing was begun: the client may correct its request and use the key again.
            await keys.release(name)
            raise
    answer = await _answer(services, row, execution_id, asked.wait)
    await keys.store_answer(name, answer)
    return answer, repeated


async def _begin_once(services: Services, row: CatalogRow, execution_id: str, terms: StartTerms) -> None:
    """Begin an execution, unless an equal request has begun it at the same moment."""
    try:
        await begin(services, row, execution_id, terms)
    # The second of two equal requests gets a conflict, and a lost answer looks like a failure. If the execution exists,
    # both are a success.
    except BackendError:
        if await services.store.execution(execution_id) is None:
            raise


async def requested_version(services: Services, asked: StartRequest) -> CatalogRow:
    """The requested version. 404 if there is none, 422 if the request is ambiguous."""
    if (asked.path is None) == (asked.playbook_id is None):
        raise ProblemDetails(422, "name the playbook by path, or by playbook_id")
    if asked.playbook_id is not None:
        if asked.version is not None:
            raise ProblemDetails(422, "playbook_id names the version already")
        path, _, version = asked.playbook_id.rpartition("@")
        row = await services.store.catalog.find(path, version) if path else None
        # `find` takes labels as well, and an id that names a label would move to another version later.
        if row is None or str(row.version) != version:
            raise not_found("playbook", asked.playbook_id)
        return row
    assert asked.path is not None
    return await registered_version(services.store.catalog, asked.path, asked.version)


async def begin(services: Services, row: CatalogRow, execution_id: str, terms: StartTerms) -> None:
    """Begin an execution of a registered version; once this returns, it is durable (P1)."""
    net = await net_of(services, row)
    carried = None
    if terms.source is not None:
        inputs = ApprovedInputs(net_hash=row.net_hash, payload=terms.payload)
        carried = await _rerun_state(services, net, terms.source, inputs, terms.consent or Consent(actor=""))
    await _start(services, net, execution_id, terms, carried)


async def _start(
    services: Services, net: Net, execution_id: str, terms: StartTerms, carried: RerunState | None
) -> None:
    payload, caller = terms.payload, terms.caller
    if carried is None:
        check_required_inputs(net, payload)
    # An id without its dashes has 32 hex digits, as the W3C format of a trace id requires.
    trace_id = caller.trace_id if caller is not None else execution_id.replace("-", "")
    # Before the start: a short execution may end, and be traced, before anything after it is run.
    if services.listeners.tracing is not None and caller is not None:
        await services.listeners.tracing.remember_caller(execution_id, caller, services.clock.now())
    # Counted around the commit: `_check_load` bounds the number that wait for the store.
    services.starting += 1
    try:
        await services.control.executions.start(
            net, execution_id=execution_id, trace_id=trace_id, payload=payload, carried=carried, starter=terms.starter
        )
    finally:
        services.starting -= 1


async def checked_draft(services: Services, source: str) -> Checked:
    """A text that can be run here without being registered. Problem 422 says what is wrong with it."""
    _check_load(services)
    checked = await playbook_texts.check_text(playbook_texts.PlaybookText(source=source), for_start=True)
    if checked.net is None or checked.refusals:
        raise playbook_texts.playbook_problem(checked)
    await _check_runnable(checked.net, services)
    return checked


async def start_net(
    services: Services,
    checked: Checked,
    net: Net,
    payload: dict[str, Any],
    *,
    subject: str,
    caller: TraceParent | None,
    carried: RerunState | None = None,
) -> StartedDraft:
    """Begin an execution of an unregistered net. The catalogue and the schedule of its path do not change."""
    execution_id = uuid7(services.clock.now())
    async with services.listeners.usage.starting(execution_id, subject):
        terms = StartTerms(payload, Starter(kind="user", name=subject), caller=caller)
        await _start(services, net, execution_id, terms, carried)
    views = playbook_texts.diagnostic_views(checked.diagnostics, checked.source)
    return StartedDraft(execution_id=execution_id, path=net.path, diagnostics=views)


async def net_of(services: Services, row: CatalogRow) -> Net:
    """The net of a version, which can be run here. Problem 422 says why not."""
    net: Net | None = services.caches.nets.get(row.net_hash)
    if net is None:
        net = from_json(await services.store.net(row.net_hash))
        # Cleared as a whole: it only saves decoding, and a net in use is decoded again at the next start.
        if len(services.caches.nets) >= 500:
            services.caches.nets.clear()
        services.caches.nets[row.net_hash] = net
    await _check_runnable(net, services)
    return net


async def _check_runnable(net: Net, services: Services) -> None:
    try:
        # First by the tools of this server, which needs no query; most installations can run everything.
        check_runnable(net, services.tools)
    except RefusedError:
        await _check_other_workers(net, services)


async def _check_other_workers(net: Net, services: Services) -> None:
    """422 if no other worker, of this or another server, can run the net either."""
    # Called for its effect: `roster.kinds` knows workers of other servers only from this list.
    await services.roster.list()
    try:
        check_runnable(net, services.tools, services.roster.kinds)
    except RefusedError as problem:
        raise ProblemDetails(422, f"no worker of this server can run it: {problem}", kind="not-runnable") from None


def _check_load(services: Services) -> None:
    """429 while more starts are requested than can be stored (reliability.md §3.7)."""
    settings = services.settings
    if services.starting >= settings.max_starts_at_once:
        # A random wait spreads clients that were refused together.
        raise too_busy("too many executions are being started at once", random.randint(1, 3))  # noqa: S311
    # Only while others are starting: one start is always accepted, since only a commit can show that the store is fast
    # again.
    if services.starting and services.listeners.meters.commit_s > settings.slow_commit_s:
        raise too_busy("the store is slow at the moment", random.randint(2, 6))  # noqa: S311


async def _answer(services: Services, row: CatalogRow, execution_id: str, wait_s: float) -> bytes:
    # With no wait this is the row that was just stored, without a query.
    ended = await services.listeners.hub.wait_for_end(execution_id, max(0.0, min(wait_s, MAX_WAIT_S)))
    assert ended is not None, "it was stored a moment ago"
    view = None
    # A start without `wait` gets the same answer, even if the execution has ended already.
    if wait_s and ended.finished_at is not None:
        ending = await execution_ending(services.store, services.encoded_values, ended)
        view = ending.view(execution_id)
    return msgspec.json.encode(
        Started(
            execution_id=execution_id,
            path=row.path,
            version=row.version,
            catalog_id=catalog_id(row.path, row.version),
            status=ended.status,
            trace_id=ended.trace_id,
            result=view.result if view is not None else None,
            error=view.error if view is not None else None,
            diagnostics=await playbook_texts.diagnostics_of(services, row),
        )
    )


async def _rerun_state(
    services: Services, net: Net, source: RerunSource, inputs: ApprovedInputs, consent: Consent
) -> RerunState:
    """The state in which a rerun from a step begins (CLI-04); 422 if there is none."""
    row = await services.store.execution(source.execution_id)
    assert row is not None, "it was found by the request"
    events = await whole_events(services, row, await services.store.events(row.execution_id))
    try:
        return await state_at_step(
            services.store, row, source.step, events, net, inputs, consent, failed_items=source.failed_items
        )
    except NoRerunError as problem:
        raise ProblemDetails(422, f"from: {problem}", kind="from") from None
