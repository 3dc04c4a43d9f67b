"""Routes of credentials: values go in and never come out (reliability.md §2.6)."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from fastapi import Request, Response

from noetl.operations.administration_shapes import CredentialCheck, CredentialView, Rotated
from noetl.operations.credentials import CredentialOperations, key_is_elsewhere, used_key_id
from noetl.secrets.master_keys import MasterKeys, has_master_keys, load_master_keys
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, services_of, tools_of

router = GuardedRouter(tags=["credentials"])


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`value` is one text, or an object of fields as the type has them."""

    value: str | dict[str, Any]
    type: str = "text"

    def __repr__(self) -> str:
        return f"Setting(type={self.type!r})"


class Trying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kind`: the kind of task that uses it, known from its type when left out. `url`: a bucket to look into."""

    kind: str | None = None
    url: str | None = None


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    credentials: list[CredentialView]


@router.get("/api/credentials", **shows(Credentials, summary="List credentials"))
async def credentials(request: Request) -> Response:
    """Names, types, versions and fingerprints; never a value."""
    return Json(Credentials(credentials=await _credentials(services_of(request), MasterKeys([])).list()))


@router.put("/api/credentials/{name}", **shows(CredentialView, reads=Setting, summary="Store a credential"))
async def put(request: Request, name: str) -> Response:
    """A new one, or a new version of one."""
    services, asked = services_of(request), await read(request, Setting)
    # where the author sits at the terminal a first key is made for them; elsewhere the operator decides
    keys = await _master_keys(services, create=services.settings.local)
    stored = await _credentials(services, keys).set(name, asked.value, kind=asked.type)
    services.secret_release.reopen()  # the first key may just have been made
    return Json(stored)


@router.delete("/api/credentials/{name}", **shows(status=204, summary="Delete a credential"))
async def delete(request: Request, name: str) -> Response:
    await _credentials(services_of(request), MasterKeys([])).delete(name)
    return Response(status_code=204)


@router.post("/api/credentials/{name}/test", **shows(CredentialCheck, reads=Trying, summary="Try a credential"))
async def test(request: Request, name: str) -> Response:
    """Connect with it from here, under the address policy of this server, and do nothing else."""
    services, asked = services_of(request), await read(request, Trying)
    tools = tools_of(services.settings)  # of its own: it is closed afterwards
    return Json(await _credentials(services, await _master_keys(services)).check(name, asked.kind, asked.url, tools))


@router.post("/api/credentials/rotate", **shows(Rotated, summary="Put all under a new master key"))
async def rotate(request: Request) -> Response:
    """An interrupted rotation is finished first. With a key from the environment the operator adds the new one."""
    services = services_of(request)
    return Json(await _credentials(services, await _master_keys(services)).rotate(services.secret_release.reopen))


def _credentials(services: Services, keys: MasterKeys) -> CredentialOperations:
    return CredentialOperations(services.store, keys, services.clock)


async def _master_keys(services: Services, *, create: bool = False) -> MasterKeys:
    if not has_master_keys(os.environ) and (key_id := await used_key_id(services.store)) is not None:
        raise ProblemDetails(503, key_is_elsewhere(key_id, os.environ))
    if keys := load_master_keys(os.environ, create=create):
        return keys
    raise ProblemDetails(
        503, "there is no master key here: its operator sets NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE"
    )
