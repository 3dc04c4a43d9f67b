"""Routes of the catalogue: registering playbooks, their versions, texts, differences and proofs (SRV-09, SRV-10)."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.net.net import Net, from_json
from noetl.operations.api_shapes import CatalogPage, PlaybookSteps, VersionDetail, Versions
from noetl.operations.catalog import (
    Conditions,
    matching_steps,
    newest_versions,
    playbook_source,
    playbook_versions,
    register_playbook,
    registered_version,
    version_fields,
)
from noetl.server import playbook_texts
from noetl.server.access.audit_writer import OBJECT
from noetl.server.bodies import JSON, YAML, body_of, media_type, read, require_media_type
from noetl.server.computations import computed
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import identity_of, services_of

if TYPE_CHECKING:
    from noetl.language.proving.certificate import Certificate

router = GuardedRouter(tags=["catalogue"])
Version = Annotated[str, Query(description="A number, or the author's label.", max_length=200)]


class Registering(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path`, when given, must be the one the playbook has. `strict` refuses warnings too, as the server's own setting
    does; `migrate` registers the v10 form of a text in an older dialect. Without `schedule` the schedule of this path
    is left as it is. `opened_from` is the `catalog_id` of the version that this text was made from, `""` for a new
    playbook: 409 when another version is the newest. Without `may_remove`, 409 for a text without the schedule or the
    notifications of the newest version; `removed` names them."""

    source: str
    path: str | None = None
    strict: bool = False
    migrate: bool = False
    schedule: bool = True
    opened_from: str | None = None
    may_remove: bool = True


class Registered(VersionDetail, frozen=True, kw_only=True):
    """`created` is false when the newest version had the same content. `migrated`: what is registered is not the text
    that was sent, but its v10 form. `absent_credentials` are named by its notices and not stored yet."""

    created: bool
    verdict: str
    diagnostics: list[playbook_texts.DiagnosticView]
    migrated: bool = False
    absent_credentials: list[str] = []


@router.post("/api/catalog", **openapi_docs(Registered, reads=Registering, status=201, summary="Register a playbook"))
async def register(request: Request) -> Response:
    """Check a playbook and put it into the catalogue: a new version, unless the newest one has the same content (then
    200). The body is the YAML text, or JSON with it. 422 with all diagnostics when it has errors; `migration` says
    then whether `POST /api/migrate` would give a text that is accepted."""
    services = services_of(request)
    asked = await _registering_in(request)
    source = await playbook_texts.migrated_text(asked.source) if asked.migrate else asked.source
    result = await playbook_texts.check_text(
        playbook_texts.PlaybookText(source=source, strict=asked.strict or services.settings.strict),
        for_start=True,
    )
    if result.net is None or result.certificate is None:
        raise playbook_texts.playbook_problem(result, migration=await playbook_texts.migration_outcome(result))
    # The path is part of the text. A request that names another one is about the wrong file.
    if asked.path not in (None, result.net.path):
        raise ProblemDetails(422, f'path: the path in the playbook is "{result.net.path}"')
    registered = await register_playbook(
        services.store,
        result.net,
        source=source,
        at=services.clock.now(),
        schedule=asked.schedule,
        conditions=Conditions(opened_from=asked.opened_from, may_remove=asked.may_remove),
        actor=str(identity_of(request).subject),
    )
    row = registered.row
    # For the audit log: the version is known only now.
    request.scope[OBJECT] = f"{request.url.path}?path={row.path}&version={row.version}"
    answer = Registered(
        **version_fields(row),
        created=registered.created,
        dialect=result.dialect.value if result.dialect is not None else "",
        verdict=result.certificate.verdict,
        diagnostics=playbook_texts.diagnostic_views(result.diagnostics),
        migrated=source != asked.source,
        absent_credentials=registered.absent_credentials,
    )
    return Json(answer, 201 if registered.created else 200)


async def _registering_in(request: Request) -> Registering:
    """The body of a registration: JSON, or the plain text of a playbook."""
    require_media_type(request, (*JSON, *YAML))
    if media_type(request) in JSON:
        return await read(request, Registering)
    return Registering(source=playbook_texts.decode_text(await body_of(request)))


@router.get("/api/catalog", **openapi_docs(CatalogPage, summary="List playbooks"))
async def catalogue(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Response:
    """The newest version of each path, by path."""
    return Json(CatalogPage(playbooks=await newest_versions(services_of(request).store, limit=limit)))


@router.get("/api/steps", **openapi_docs(PlaybookSteps, summary="Find steps of playbooks"))
async def steps(
    request: Request,
    text: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Steps whose names contain every word of `text`, of the newest version of each playbook."""
    found = await matching_steps(services_of(request).store, text, limit=limit)
    return Json(PlaybookSteps(steps=found))


@router.get("/api/catalog/{path:path}/versions", **openapi_docs(Versions, summary="List the versions of a playbook"))
async def versions(request: Request, path: str) -> Response:
    return Json(Versions(path=path, versions=await playbook_versions(services_of(request).store, path)))


@router.get("/api/catalog/{path:path}/versions/{version}", **openapi_docs(VersionDetail, summary="One version"))
async def one_version(request: Request, path: str, version: str) -> Response:
    return Json(await _version_detail(request, path, version))


@router.get("/api/catalog/{path:path}/source", **openapi_docs(media="text/yaml", summary="The text of a version"))
async def source(request: Request, path: str, version: Version | None = None) -> Response:
    """As it was registered, of the newest version unless another is named."""
    text = await playbook_source(services_of(request).store.catalog, path, version)
    return Response(text, media_type="text/yaml; charset=utf-8")


@router.get("/api/catalog/{path:path}/diff", **openapi_docs(media="text/x-diff", summary="What two versions differ in"))
async def difference(
    request: Request, path: str, old: Annotated[str, Query(alias="from")], new: Annotated[str, Query(alias="to")]
) -> Response:
    """A unified diff of the texts of two versions."""
    catalog = services_of(request).store.catalog
    before, after = await playbook_source(catalog, path, old), await playbook_source(catalog, path, new)
    names = f"{path}@{old}", f"{path}@{new}"
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), *names)
    return Response("".join(lines), media_type="text/x-diff; charset=utf-8")


@router.get(
    "/api/catalog/{path:path}/certificate", **openapi_docs(dict[str, Any], summary="What was proved of a version")
)
async def certificate(request: Request, path: str, version: Version | None = None) -> Response:
    """The analyser's verdict on a version's net, with witnesses and the reasons why its cycles end."""
    services = services_of(request)
    row = await registered_version(services.store.catalog, path, version)
    # From the text where there is one: its findings have places in it.
    if row.source is not None:
        result = await playbook_texts.check_text(playbook_texts.PlaybookText(source=row.source))
        if result.certificate is not None:
            return Json(playbook_texts.certificate_view(result.certificate))
    net = from_json(await services.store.net(row.net_hash))
    # In a thread: a proof may take half a second, and all other requests share this event loop.
    return Json(playbook_texts.certificate_view(await computed(_certificate_of, net)))


@router.get("/api/catalog/{path:path}", **openapi_docs(VersionDetail, summary="The newest version of a playbook"))
async def newest(request: Request, path: str) -> Response:
    return Json(await _version_detail(request, path))


async def _version_detail(request: Request, path: str, version: str | None = None) -> VersionDetail:
    services = services_of(request)
    row = await registered_version(services.store.catalog, path, version)
    net = from_json(await services.store.net(row.net_hash))
    return VersionDetail(**version_fields(row), dialect=net.dialect)


def _certificate_of(net: Net) -> Certificate:
    from noetl.language.proving.certificate import analyse  # nothing at a server's start needs it

    return analyse(net, {})
