"""Routes of workers and pools: who is there, and how much of it may be used at once (SRV-08)."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from noetl.orchestrator.pools import EVERY, Pool, Rate
from noetl.server.bodies import read
from noetl.server.problems import Problem, unknown
from noetl.server.routes.orders import PROTOCOL, check_pools, check_protocol
from noetl.server.routing import Json, shows
from noetl.server.services import Services, identity_of, services_of
from noetl.server.workers import LIVE_S, WorkerRow, WorkerView, shown
from noetl.store.contract import DEFAULT_POOL

router = APIRouter(tags=["workers"])


class Announcing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    worker_id: str
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    capacity: int = 1
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    protocol: int = 1
    version: str = ""


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    workers: list[WorkerView]


class PoolSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Null: no limit. `rate` is {limit, per}: so many orders in so many seconds."""

    capacity: int | None = None
    rate: Rate | None = None


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """`leased` orders are held now; `workers` are those heard of within the last minute."""

    name: str
    capacity: int | None
    rate: Rate | None
    leased: int
    workers: int


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    pools: list[PoolView]


@router.post("/api/workers", **shows(WorkerView, reads=Announcing, status=201, summary="Announce a worker"))
async def register(request: Request) -> Response:
    """Doing so again renews it."""
    services = services_of(request)
    check_protocol(request)
    asked, identity = await read(request, Announcing), identity_of(request)
    _check(asked)
    check_pools(request, asked.pools)
    before = await services.roster.get(asked.worker_id)
    if before is not None and before.token_id not in ("", identity.token_id):
        raise Problem(403, "this worker id belongs to another token", kind="identity")
    row = await services.roster.register(WorkerRow(**msgspec.structs.asdict(asked), token_id=identity.token_id))
    return Json(shown(row, services.clock.now()), 201)


def _check(asked: Announcing) -> None:
    if not asked.worker_id or len(asked.worker_id) > 300 or not asked.worker_id.isprintable():
        raise Problem(422, "worker_id: 1 to 300 printable characters")
    if not asked.pools or asked.capacity < 1:
        raise Problem(422, "a worker serves one pool at least, and one order at a time at least")
    if str(asked.protocol) != PROTOCOL:
        raise Problem(426, f"this server speaks worker protocol {PROTOCOL}, the worker speaks {asked.protocol}")


@router.delete("/api/workers/{worker_id:path}", **shows(status=204, summary="A worker leaves"))
async def remove(request: Request, worker_id: str) -> Response:
    services, identity = services_of(request), identity_of(request)
    row = await services.roster.get(worker_id)
    if row is None:
        raise unknown("worker", worker_id)
    if identity.role == "worker" and row.token_id not in ("", identity.token_id):
        raise Problem(403, "this worker id belongs to another token", kind="identity")
    await services.roster.remove(worker_id)
    await services.conductor.give_back(worker_id)
    return Response(status_code=204)


@router.get("/api/workers", **shows(Workers, summary="List workers"))
async def workers(request: Request) -> Response:
    """Those registered, with what they serve, when they were last heard of, and what they held then."""
    services = services_of(request)
    now = services.clock.now()
    return Json(Workers(workers=[shown(row, now) for row in await services.roster.list()]))


@router.get("/api/pools", **shows(PoolList, summary="List pools"))
async def pools(request: Request) -> Response:
    """Those with a setting, and those that some worker serves."""
    services = services_of(request)
    settings = {pool.name: pool for pool in await services.conductor.pools.all()}
    served = {name for row in await services.roster.list() for name in row.pools}
    names = sorted({*settings, *served, DEFAULT_POOL} - {EVERY})
    return Json(PoolList(pools=[await _view(services, settings.get(name) or Pool(name=name)) for name in names]))


@router.put("/api/pools/{name}", **shows(PoolView, reads=PoolSetting, summary="Set a pool's limits"))
async def set_pool(request: Request, name: str) -> Response:
    """From now on, for every server; orders that are held stay held."""
    services, asked = services_of(request), await read(request, PoolSetting)
    if not name.isprintable() or len(name) > 200:
        raise Problem(422, "name: 1 to 200 printable characters")
    pool = Pool(name=name, capacity=asked.capacity, rate=asked.rate)
    await services.conductor.pools.put(pool)
    return Json(await _view(services, pool))


async def _view(services: Services, pool: Pool) -> PoolView:
    now = services.clock.now()
    leased = await services.store.leased(now=now, pools=[pool.name])
    live = [
        row
        for row in await services.roster.list()
        if now - row.last_seen < LIVE_S and (pool.name in row.pools or EVERY in row.pools)
    ]
    return PoolView(
        name=pool.name, capacity=pool.capacity, rate=pool.rate, leased=leased.get(pool.name, 0), workers=len(live)
    )
