"""Routes of workers and pools: who is there, and how much of it may be used at once (SRV-08)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import Request, Response

from noetl.control.claiming.orders import WorkerAbilities, labels_text
from noetl.control.claiming.pools import Pool, PoolRate
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails, not_found
from noetl.server.routes.orders import PROTOCOL, check_own, check_pools, check_protocol
from noetl.server.services import Services, identity_of, services_of
from noetl.server.workers import Crew, WorkerRow, WorkerView, crews_of, obstacles, worker_id_of, worker_views
from noetl.store.contract import DEFAULT_POOL

router = GuardedRouter(tags=["workers"])


class Announcing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name` is what people call the worker, `instance` what tells it from others of that name. The same two, under the
    same token, are the same worker."""

    name: str
    instance: str = ""
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    capacity: int = 1
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    protocol: int = 1
    version: str = ""


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    workers: list[WorkerView]


class PoolSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Null: no limit. `rate` is {limit, per}: so many orders in so many seconds. `require` are the labels of workers
    that may take its orders; null leaves them as they are."""

    capacity: int | None = None
    rate: PoolRate | None = None
    require: dict[str, str] | None = None


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """`leased` orders are held now. `workers` are those heard of within the last minute that may take its orders;
    `kinds` are the tool kinds they run, null where one of them did not say. `obstacles` say why orders
    wait that none of them can take. `depths` are how many orders waited, every 30 s over the last hour and now, the
    newest last; they begin with the start of the server."""

    name: str
    capacity: int | None
    rate: PoolRate | None
    require: dict[str, str]
    leased: int
    workers: int
    kinds: list[str] | None
    obstacles: list[str]
    depths: list[int] = []


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    pools: list[PoolView]


@router.post("/api/workers", **openapi_docs(WorkerView, reads=Announcing, status=201, summary="Announce a worker"))
async def register(request: Request) -> Response:
    """The answer has the id that the worker speaks under from then on. Doing so again renews it."""
    services = services_of(request)
    check_protocol(request)
    asked, identity = await read(request, Announcing), identity_of(request)
    _check(asked)
    check_pools(request, asked.pools)
    await _check_labels(services, asked)
    fields = msgspec.structs.asdict(asked)
    # The token is part of the id, so that one token cannot register, drain or report as the worker of another.
    worker_id = worker_id_of(identity.token_id, fields.pop("name"), fields.pop("instance"))
    row = await services.roster.register(WorkerRow(**fields, worker_id=worker_id, token_id=identity.token_id))
    return await _worker_response(services, row, 201)


async def _check_labels(services: Services, asked: Announcing) -> None:
    """403 for a pool whose labels the worker lacks: it would wait there forever. A worker that serves every pool is
    accepted, but receives no orders of such a pool."""
    ability = WorkerAbilities(labels=asked.labels)
    for pool in await services.control.pools.all():
        if pool.name in asked.pools and not ability.carries(pool.require):
            flags = " ".join(f"--label {key}={value}" for key, value in sorted(pool.require.items()))
            carried = labels_text(asked.labels) or "none"
            detail = f'pool "{pool.name}" requires the labels {labels_text(pool.require)}; this one carries {carried}'
            raise ProblemDetails(403, f"{detail}: start it with {flags}, or for another pool", kind="labels")


def _check(asked: Announcing) -> None:
    if not 1 <= len(asked.name) <= 200 or not asked.name.isprintable() or "/" in asked.name:
        raise ProblemDetails(422, 'name: 1 to 200 printable characters, and no "/"')
    if len(asked.instance) > 200 or not asked.instance.isprintable():
        raise ProblemDetails(422, "instance: at most 200 printable characters")
    if not asked.pools or asked.capacity < 1:
        raise ProblemDetails(422, "a worker serves one pool at least, and one order at a time at least")
    if str(asked.protocol) != PROTOCOL:
        raise ProblemDetails(426, f"this server speaks worker protocol {PROTOCOL}, the worker speaks {asked.protocol}")


@router.delete("/api/workers/{worker_id:path}", **openapi_docs(status=204, summary="A worker leaves"))
async def remove(request: Request, worker_id: str) -> Response:
    services, identity = services_of(request), identity_of(request)
    row = await _known_worker(request, worker_id)
    if identity.role == "worker":
        # The token of a worker removes its own workers only; people with the right to may remove any.
        check_own(row, identity.token_id)
    await services.roster.remove(worker_id)
    # Orders that it still holds become ready now, instead of when their leases run out.
    await services.control.for_workers.give_back(worker_id)
    return Response(status_code=204)


@router.get("/api/workers", **openapi_docs(Workers, summary="List workers"))
async def workers(request: Request) -> Response:
    """Those registered, with what they serve, when they were last heard of, and what they hold."""
    services = services_of(request)
    return Json(Workers(workers=await worker_views(services, await services.roster.list())))


async def _worker_response(services: Services, row: WorkerRow, status: int = 200) -> Response:
    (view,) = await worker_views(services, [row])
    return Json(view, status)


@router.post("/api/workers/{worker_id:path}/drain", **openapi_docs(WorkerView, summary="Drain a worker"))
async def drain(request: Request, worker_id: str) -> Response:
    """It finishes what it holds and is given nothing more, by any server, until it is resumed."""
    services, row = services_of(request), await _known_worker(request, worker_id)
    await services.control.pools.drains.begin(worker_id, by=str(identity_of(request).subject))
    return await _worker_response(services, row)


@router.post("/api/workers/{worker_id:path}/resume", **openapi_docs(WorkerView, summary="Resume a drained worker"))
async def resume(request: Request, worker_id: str) -> Response:
    """It takes orders again, with its next turn. Doing so to one that is not drained changes nothing."""
    services, row = services_of(request), await _known_worker(request, worker_id)
    await services.control.pools.drains.end(worker_id)
    return await _worker_response(services, row)


async def _known_worker(request: Request, worker_id: str) -> WorkerRow:
    row = await services_of(request).roster.get(worker_id)
    if row is None:
        raise not_found("worker", worker_id)
    return row


@router.get("/api/pools", **openapi_docs(PoolList, summary="List pools"))
async def pools(request: Request) -> Response:
    """Those with a setting, those that some worker serves, and those in which orders wait."""
    services = services_of(request)
    crews, now = await crews_of(services), services.clock.now()
    waiting = await services.store.unclaimed(now=now)
    # A pool needs no declaration: it exists as soon as a worker serves it or an order names it.
    names = sorted({*crews, *waiting, *services.caches.queue_depths.pools, DEFAULT_POOL})
    leased = await services.store.leased(now=now, pools=names)
    return Json(PoolList(pools=[await _view(services, crews.of(name), leased, waiting) for name in names]))


@router.put("/api/pools/{name}", **openapi_docs(PoolView, reads=PoolSetting, summary="Set a pool's limits"))
async def set_pool(request: Request, name: str) -> Response:
    """From now on, for every server; orders that are held stay held."""
    services, asked = services_of(request), await read(request, PoolSetting)
    if not name.isprintable() or len(name) > 200:
        raise ProblemDetails(422, "name: 1 to 200 printable characters")
    require = asked.require
    # Left out means unchanged. Only an empty mapping takes the labels away.
    if require is None:
        require = (await services.control.pools.get(name)).require
    await services.control.pools.put(Pool(name=name, capacity=asked.capacity, rate=asked.rate, require=require))
    now = services.clock.now()
    leased, waiting = await services.store.leased(now=now, pools=[name]), await services.store.unclaimed(now=now)
    return Json(await _view(services, (await crews_of(services)).of(name), leased, waiting))


async def _view(services: Services, crew: Crew, leased: Mapping[str, int], waiting: Mapping[str, int]) -> PoolView:
    pool = crew.pool
    return PoolView(
        name=pool.name,
        capacity=pool.capacity,
        rate=pool.rate,
        require=pool.require,
        leased=leased.get(pool.name, 0),
        workers=len(crew.fit),
        kinds=crew.kinds,
        obstacles=await obstacles(services, crew, waiting.get(pool.name, 0)),
        depths=services.caches.queue_depths.of(pool.name, waiting.get(pool.name, 0)),
    )
