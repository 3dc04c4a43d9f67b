"""Services: everything a route may need, opened once for a server and closed with it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from fastapi import Request
from starlette.requests import HTTPConnection

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.clock import Clock
from noetl.base.diagnostics import Source
from noetl.base.errors import PlaybookError
from noetl.control.assembly import Assembly, assemble
from noetl.control.claiming.orders import check_runnable
from noetl.control.commit.effects import Listeners
from noetl.control.commit.sharing import SharedExecutions
from noetl.control.nested.calls import StoreLibrary
from noetl.control.notifications.notices import NoticeWriter
from noetl.control.notifications.rules import NotificationRules
from noetl.control.notifications.sender import Destinations, NoticeSender
from noetl.control.secrets.release import SecretRelease
from noetl.control.views.live_output import LiveOutput
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.orders import LeaseTerms
from noetl.events.payloads import Payload
from noetl.net.net import Net
from noetl.operations.net_cost import StepDurations
from noetl.operations.notifications import Notifications
from noetl.operations.results import whole_payload
from noetl.secrets.encryption import load_master_keys
from noetl.server.access.access import Access
from noetl.server.backends import Readiness, clock_of, open_dispatch, open_server_keychain
from noetl.server.computations import EncodedValues
from noetl.server.configuration import ServerSettings
from noetl.server.event_hub import Hub
from noetl.server.logs import log_ends
from noetl.server.metrics import MeasuredStore, Meters, PlaybookMeters, QueueDepths
from noetl.server.quotas import SharedUsage, Usage, free_bytes_of
from noetl.server.tracing import Tracing, open_tracing
from noetl.server.views.states import StateHistories
from noetl.store.contract import ResultStore, Store
from noetl.store.open_store import open_store
from noetl.store.wakeups import MemoryWakeups, Wakeups
from noetl.tools.kinds import load_kinds
from noetl.tools.registry import Permissions, Registry, allowed_kinds, denied_kinds, guarded_registry
from noetl.worker.identity import own_worker_id
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle

if TYPE_CHECKING:
    from noetl.server.workers import Roster


Recorded = TypeVar("Recorded", bound=Payload)


class CommitListeners(msgspec.Struct, frozen=True, kw_only=True):
    """Listeners of every commit in a server. None of them decides anything: a lost listener loses no state."""

    hub: Hub  # wakes streams and requests that wait for an end
    live_output: LiveOutput  # output of running tasks; dropped when their results are stored
    usage: Usage  # usage of executions, for quotas
    sender: NoticeSender  # sends notices that were stored with the commit
    meters: Meters
    tracing: Tracing | None  # None unless an exporter of traces is configured

    def of_control_plane(self, tools: Registry, handle: WorkerHandle) -> Listeners:
        """The listeners for the control plane: first those that requests wait for, then metrics and traces."""

        def watch(events: Sequence[Event]) -> None:
            self.meters.count_events(events)
            log_ends(events)
            # The end of an execution is the last event of its commit, so that one look is enough.
            if any(isinstance(event.payload, PlaybookProcessed) for event in events[-1:]):
                tools.release(events[-1].execution_id)  # resources of a worker in this process for it

        waited_for = (self.sender.stored, self.live_output.stored, self.hub.stored, self.usage.count_commits)
        traced = (self.tracing.stored,) if self.tracing is not None else ()
        counted = PlaybookMeters(self.meters.registry).stored
        return Listeners(watch=watch, stored=(*waited_for, counted, *traced), stop=handle.stop)


class ServerCaches(msgspec.Struct, kw_only=True):
    """What a server keeps in memory to answer sooner. All of it can be read or computed again."""

    histories: StateHistories  # of executions that clients look at
    step_durations: StepDurations  # of executions that have ended, for the cost of nets
    queue_depths: QueueDepths  # of the last hour
    nets: dict[str, Net] = {}  # by hash, those that were started lately
    warnings: dict[tuple[str, int], list[Any]] = {}  # about the texts of versions, by path and version
    registered_nets: set[tuple[str, str]] = set()  # paths with hashes of nets that are in the catalogue


class Services(msgspec.Struct, kw_only=True):
    """Everything a route may need."""

    settings: ServerSettings
    store: Store
    results: ResultStore
    dispatch: Wakeups
    clock: Clock  # that of the store if several servers share it
    control: Assembly
    listeners: CommitListeners
    worker_handle: WorkerHandle  # of the worker in this process, whether there is one or not
    library: StoreLibrary  # where nested playbooks are found
    tools: Registry  # those that playbooks may use on this server
    secret_release: SecretRelease
    caches: ServerCaches
    roster: Roster  # the workers that are known
    access: Access  # state of the gate: tokens, sessions, webhooks, the audit log
    readiness: Readiness
    notifications: Notifications
    # Set when the server begins to stop: from then on no worker gets an order.
    stopping: bool = False
    starting: int = 0  # executions whose start is in progress
    calls: dict[str, Any] = {}  # nested playbooks that workers wait for, by task run and lease

    @property
    def encoded_values(self) -> EncodedValues:
        """Stored values for answers."""
        return EncodedValues(self.control.executions.values)

    async def read_back(self, payload: Recorded) -> Recorded:
        """A payload with its separately stored values. ToolError if one of them is gone."""
        return await whole_payload(payload, self.control.executions.values)


def services_of(request: HTTPConnection) -> Services:
    return cast(Services, request.app.state.services)


def tools_of(settings: ServerSettings) -> Registry:
    """The tools of a worker in this process. On a local server, private addresses are allowed (design.md §7)."""
    # Only on a local server may tasks use the folder in which the server was started.
    folders = settings.data_folders or ((str(Path.cwd()),) if settings.local else ())
    stand_ins = settings.provider_stand_ins
    permissions = Permissions(
        kinds=allowed_kinds(settings.allow),
        denied=denied_kinds(settings.deny),
        data_folders=folders,
        provider_stand_ins=stand_ins,
        sandbox=settings.sandbox,
        addresses=addresses_of(settings),
    )
    return guarded_registry(permissions)


def addresses_of(settings: ServerSettings) -> AddressPolicy:
    """The addresses that tools and token requests of this server may reach."""
    proxies = outbound_proxies(settings.proxy, settings.no_proxy, os.environ)
    return AddressPolicy(allow_private=settings.local, allow=settings.allow_addresses, proxies=proxies)


def compiled_file(file: Path) -> Net:
    """The net of a file without errors, for playbooks that lie beside the one that calls them."""
    from noetl.language.checking import check  # nothing at a server's start needs it

    checked = check(Source(str(file), file.read_text("utf-8")), kinds=load_kinds(), proofs=False)
    if checked.net is None:
        raise PlaybookError(f"{file.name} has errors")
    return checked.net


@asynccontextmanager
async def serving_services(
    settings: ServerSettings, *, clock: Clock | None = None, tools: Registry | None = None
) -> AsyncIterator[Services]:
    """The services of a server on the store that `settings` name. The hub listens for as long as the block lasts."""
    store, results = await open_store(settings.db, settings.results)
    try:
        dispatch = await open_dispatch(settings)
        try:
            clock = clock or await clock_of(store)
            made = make_services(settings, store, results, clock=clock, dispatch=dispatch, tools=tools)
            async with made.listeners.hub.polling():
                yield made
        finally:
            await dispatch.close()
    finally:
        results.close()
        await store.close()


def make_services(
    settings: ServerSettings,
    store: Store,
    results: ResultStore,
    *,
    clock: Clock,
    dispatch: Wakeups | None = None,
    tools: Registry | None = None,
) -> Services:
    """Services over an open store."""
    tools, dispatch, meters = tools or tools_of(settings), dispatch or MemoryWakeups(), Meters()
    # Everything below uses the measured store, so that no call of it is missing in the metrics.
    measured = cast(Store, MeasuredStore(store, meters))
    # Opened with the first secret: without a master key a server serves all playbooks that need none.
    secret_release = SecretRelease(lambda: open_server_keychain(store.credentials, clock, settings))
    roster = _roster(measured, clock)
    library = _library(measured, clock, tools, roster)
    destinations = _destinations(settings, clock, secret_release)
    notifications = Notifications(measured.notices, NotificationRules(measured.key_values, clock), destinations, clock)
    listeners = _commit_listeners(settings, measured, results, clock, meters, destinations)
    # Made before the control plane, which stops orders of the worker in this process by it.
    handle = WorkerHandle(own_worker_id(), dispatch.notify_workers, HeldLeases(clock))
    control = assemble(
        measured,
        results,
        dispatch,
        clock,
        sharing=SharedExecutions(),
        listeners=listeners.of_control_plane(tools, handle),
        secret_release=secret_release,
        library=library,
        terms=_lease_terms(settings),
        ability_of=roster.ability,
        notices=NoticeWriter(notifications.rules, settings.public_url),
        live_output=listeners.live_output,
        is_traced=listeners.tracing is not None,
    )
    return Services(
        settings=settings,
        store=measured,
        results=results,
        dispatch=dispatch,
        clock=clock,
        control=control,
        listeners=listeners,
        worker_handle=handle,
        library=library,
        tools=tools,
        secret_release=secret_release,
        caches=ServerCaches(
            histories=StateHistories(measured),
            step_durations=StepDurations(measured),
            queue_depths=QueueDepths(measured, clock),
        ),
        roster=roster,
        readiness=Readiness(measured, clock),
        notifications=notifications,
        access=_access(settings, measured, clock),
    )


def _commit_listeners(
    settings: ServerSettings,
    store: Store,
    results: ResultStore,
    clock: Clock,
    meters: Meters,
    destinations: Destinations,
) -> CommitListeners:
    hub = Hub(store, poll_s=settings.poll_s)
    shared = SharedUsage(store.key_values, clock)
    return CommitListeners(
        hub=hub,
        live_output=LiveOutput(clock, hub.note_output),
        usage=Usage(settings.quotas, clock, shared, lambda: free_bytes_of(settings.db, results)),
        sender=NoticeSender(store.notices, destinations, clock, counted=meters.count_notice),
        meters=meters,
        tracing=open_tracing(store, meters),
    )


def _roster(store: Store, clock: Clock) -> Roster:
    # That module takes `Services` in its own functions.
    from noetl.server.workers import Roster

    return Roster(store.key_values, clock)


def _library(store: Store, clock: Clock, tools: Registry, roster: Roster) -> StoreLibrary:
    """The library of nested playbooks: they must be runnable by the tools of this server or by a known worker."""
    return StoreLibrary(
        store, clock, compiled=compiled_file, runnable=lambda net: check_runnable(net, tools, roster.kinds)
    )


def _destinations(settings: ServerSettings, clock: Clock, secret_release: SecretRelease) -> Destinations:
    """The destinations of notices, with tools of their own: the tools of a worker are closed with it."""
    return Destinations(tools_of(settings), secret_release.material, clock.now)


def _lease_terms(settings: ServerSettings) -> LeaseTerms:
    """The lease terms: a lease must survive two lost heartbeats."""
    # If the operator shortens the lease, the interval of heartbeats is shortened with it.
    return LeaseTerms(ttl_s=settings.lease_ttl_s, heartbeat_s=min(settings.heartbeat_s, settings.lease_ttl_s / 3))


def _access(settings: ServerSettings, store: Store, clock: Clock) -> Access:
    has_tls = settings.tls_cert is not None or settings.behind_proxy
    return Access(store, clock, hosts=settings.hosts, tls=has_tls, keys=lambda: load_master_keys(os.environ))


def identity_of(request: Request) -> Any:
    """The identity of the caller, as the guard has found it (`guarded_router.set_identity`)."""
    return request.state.identity
