"""Plans: compiled playbooks made ready to be decided with, once for each net (performance.md §2)."""

from __future__ import annotations

from noetl.control.results.result_cache import ResultCache
from noetl.engine.plan import Plan
from noetl.net.net import Net, from_json
from noetl.store.contract import Store

MOST = 1_000  # nets kept ready; the store has all of them


class Plans:
    def __init__(self, store: Store, values: ResultCache) -> None:
        self._store, self._values = store, values
        # By the content hash of the net: executions of the same version share one plan, whoever registered it.
        self._plans: dict[str, Plan] = {}
        self._latest: tuple[Net, Plan] | None = None  # a crowd of executions of one net makes one plan

    def of(self, net: Net) -> Plan:
        # By identity: hashing the net would cost more than the start of a small execution.
        if self._latest is None or self._latest[0] is not net:
            self._latest = net, self._keep(net)
        return self._latest[1]

    async def get(self, net_hash: str) -> Plan:
        """The plan of a net that the store has."""
        if net_hash not in self._plans:
            self._keep(from_json(await self._store.net(net_hash)))
        return self._plans[net_hash]

    def _keep(self, net: Net) -> Plan:
        plan = Plan(net, load=self._values.load, keep=self._values.keep)
        if plan.net_hash in self._plans:
            return self._plans[plan.net_hash]
        if len(self._plans) >= MOST:
            del self._plans[next(iter(self._plans))]  # the oldest; who uses it has it in hand
        self._plans[plan.net_hash] = plan
        return plan
