"""Access: everything that the gate of one server needs, including rate limits.

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
from noetl.secrets.encryption import MasterKeys
from noetl.server.access.audit_writer import AuditWriter
from noetl.server.access.callers import Callers, Sessions
from noetl.server.access.hosts import Hosts
from noetl.server.access.webhook_deliveries import WebhookDeliveries
from noetl.store.contract import Store

# Callers in memory. The one that was silent for longest is dropped first; its bucket would be full again by then.
_KEPT = 10_000


class RequestRate(msgspec.Struct, frozen=True):
    """`burst` requests at once, and `per_s` requests a second after that."""

    burst: float
    per_s: float


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    people: RequestRate = RequestRate(2_000, 1_000)  # per token
    workers: RequestRate = RequestRate(10_000, 5_000)  # per token: they report in batches, and each runs many tasks
    anonymous: RequestRate = RequestRate(100, 50)  # per address, on public routes
    tokenless: RequestRate = RequestRate(
        60, 2
    )  # per address: requests that show no token, each of which the audit log keeps
    failures: RequestRate = RequestRate(20, 0.5)  # per address: wrong tokens, wrong signatures
    webhooks: RequestRate = RequestRate(100, 20)  # per webhook, deliveries that are signed rightly


class Buckets:
    """One token bucket per key."""

    def __init__(self, rate: RequestRate, clock: Clock) -> None:
        self._rate, self._clock = rate, clock
        # By caller, the level of its bucket and when it had that level, the least recent caller first.
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one token; returns 0.0, or the seconds until the next one if the bucket is empty."""
        now = self._clock.now()
        level, since = self._levels.pop(key, (self._rate.burst, now))
        # Never less than before: the clock follows the store's and may step back.
        level = min(self._rate.burst, level + max(0.0, now - since) * self._rate.per_s)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self._rate.per_s
        # A refused request takes nothing out, so a client that keeps asking gets its turn.
        self._levels[key] = (level - 1.0 if wait == 0.0 else level), now
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        return wait


class RequestLimits:
    def __init__(self, clock: Clock, rates: Rates | None = None) -> None:
        rates = rates or Rates()
        self.people = Buckets(rates.people, clock)
        self.workers = Buckets(rates.workers, clock)
        self.anonymous = Buckets(rates.anonymous, clock)
        self.tokenless = Buckets(rates.tokenless, clock)
        self.failures = Buckets(rates.failures, clock)
        self.webhooks = Buckets(rates.webhooks, clock)


class Access:
    """`hosts` are names besides the loopback ones. `tls`: clients use https, to this server or to a proxy in front of
    it. `keys` returns the current master keys: the first one may be created while the server runs."""

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
        self.callers = Callers(self.tokens, self.sessions, tls=tls)
        self.audit = AuditWriter(store.audit, clock)
        self.deliveries = WebhookDeliveries(store.key_values, clock)
        self.webhooks = Webhooks(store.key_values, keys, clock)

    def scheme(self, seen: str) -> str:
        """The scheme that clients use; behind a proxy it is not that of the connection."""
        return "https" if self.tls else seen


def install(app: FastAPI, access: Access) -> None:
    """Put the gate before `app`. Middleware that is added later runs outside of it."""
    # Imported here because the gate imports `Access`.
    from noetl.server.access.gate import Gate

    app.state.access = access
    app.add_middleware(Gate, access=access)


def access_of(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access
