"""Access: everything the gate needs of one server, over one store, rate limits included.

Rate limits are token buckets in memory, by caller; each server counts for itself (reliability.md §3.7). `install` puts
the gate before an application.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec
from fastapi import FastAPI, Request

from noetl.base.clock import Clock
from noetl.operations.tokens import AccessTokens
from noetl.operations.webhooks import Webhooks
from noetl.secrets.master_keys import MasterKeys
from noetl.server.access.audit_writer import AuditDesk
from noetl.server.access.callers import Callers, Sessions
from noetl.server.access.hosts import Hosts
from noetl.server.access.webhook_deliveries import WebhookDeliveries
from noetl.store.contract import Store

_KEPT = 10_000  # callers remembered: the longest silent is forgotten, and would be full again by then


class RequestRate(msgspec.Struct, frozen=True):
    """So many at once, and so many a second after that."""

    burst: float
    per_s: float


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    people: RequestRate = RequestRate(2_000, 1_000)  # per token
    workers: RequestRate = RequestRate(10_000, 5_000)  # per token: they report in batches, and each runs many tasks
    strangers: RequestRate = RequestRate(100, 50)  # per address, on public routes
    nameless: RequestRate = RequestRate(
        60, 2
    )  # per address: requests that show no token, each of which the audit log keeps
    failures: RequestRate = RequestRate(20, 0.5)  # per address: wrong tokens, wrong signatures
    webhooks: RequestRate = RequestRate(100, 20)  # per webhook, deliveries that are signed rightly


class Buckets:
    """One bucket per key, filled anew as time goes by."""

    def __init__(self, rate: RequestRate, clock: Clock) -> None:
        self._rate, self._clock = rate, clock
        # By caller, how full its bucket was and when; the one not seen longest is forgotten first, which can only be in
        # its favour.
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; 0.0 when there was one, else in how many seconds there will be."""
        now = self._clock.now()
        level, since = self._levels.pop(key, (self._rate.burst, now))
        level = min(self._rate.burst, level + max(0.0, now - since) * self._rate.per_s)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self._rate.per_s
        self._levels[key] = (level - 1.0 if wait == 0.0 else level), now
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        return wait


class RequestLimits:
    def __init__(self, clock: Clock, rates: Rates | None = None) -> None:
        rates = rates or Rates()
        self.people = Buckets(rates.people, clock)
        self.workers = Buckets(rates.workers, clock)
        self.strangers = Buckets(rates.strangers, clock)
        self.nameless = Buckets(rates.nameless, clock)
        self.failures = Buckets(rates.failures, clock)
        self.webhooks = Buckets(rates.webhooks, clock)


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
