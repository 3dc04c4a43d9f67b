"""Access: everything the gate needs of one server, over one store. `install` puts the gate before an application."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI, Request

from noetl.base.clock import Clock
from noetl.operations.tokens import AccessTokens
from noetl.operations.webhooks import Webhooks
from noetl.secrets.master_keys import MasterKeys
from noetl.server.access.audit_writer import AuditDesk
from noetl.server.access.callers import Callers
from noetl.server.access.hosts import Hosts
from noetl.server.access.limits import Rates, RequestLimits
from noetl.server.access.sessions import Sessions
from noetl.server.access.webhook_deliveries import WebhookDeliveries
from noetl.store.contract import Store


class Access:
    """`hosts` are names besides the loopback ones. `tls`: people reach it by https, here or by a proxy in front. `keys`
    gives the master keys there are now: the first one may be made while the server runs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        hosts: Iterable[str] = (),
        tls: bool = False,
        rates: Rates | None = None,
        keys: Callable[[], MasterKeys] = lambda: MasterKeys([]),
    ) -> None:
        self.store, self.clock, self.tls = store, clock, tls
        self.hosts = Hosts(hosts)
        self.limits = RequestLimits(clock, rates)
        self.tokens = AccessTokens(store.key_values, clock)
        self.sessions = Sessions(store.key_values, self.tokens, clock)
        self.callers = Callers(self.tokens, self.sessions)
        self.audit = AuditDesk(store.audit, clock)
        self.deliveries = WebhookDeliveries(store.key_values, clock)
        self.webhooks = Webhooks(store.key_values, keys, clock)

    def scheme(self, seen: str) -> str:
        """How people reach this server; behind a proxy the connection itself does not tell."""
        return "https" if self.tls else seen


def install(app: FastAPI, access: Access) -> None:
    """Let nothing reach `app` but through the gate. Middleware added later stands outside of it."""
    from noetl.server.access.gate import Gate

    app.state.access = access
    app.add_middleware(Gate, access=access)


def access_of(request: Request) -> Access:
    found = request.app.state.access
    assert isinstance(found, Access)
    return found
