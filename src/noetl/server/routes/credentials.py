"""Routes of credentials: values go in and never come out (reliability.md §2.6)."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError
from noetl.secrets.credential_types import TYPES
from noetl.secrets.master_keys import MasterKeys, load_master_keys
from noetl.secrets.vault import Credential, Vault
from noetl.server.bodies import read
from noetl.server.guarded_router import Json, shows
from noetl.server.problem_details import ProblemDetails, clipped, unknown
from noetl.server.services import Services, services_of

router = APIRouter(tags=["credentials"])


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`value` is one text, or an object of fields as the type has them."""

    value: str | dict[str, Any]
    type: str = "text"

    def __repr__(self) -> str:
        return f"Setting(type={self.type!r})"


class CredentialView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    version: int
    fingerprint: str
    key_id: str
    created_at: str
    updated_at: str


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    credentials: list[CredentialView]


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    moved: int
    key_id: str


@router.get("/api/credentials", **shows(Credentials, summary="List credentials"))
async def credentials(request: Request) -> Response:
    """Names, types, versions and fingerprints; never a value."""
    found = await _vault(services_of(request), MasterKeys([])).list()
    return Json(Credentials(credentials=[_credential_view(one) for one in found]))


@router.put("/api/credentials/{name}", **shows(CredentialView, reads=Setting, summary="Store a credential"))
async def put(request: Request, name: str) -> Response:
    """A new one, or a new version of one."""
    services, asked = services_of(request), await read(request, Setting)
    if asked.type not in TYPES:
        raise ProblemDetails(422, f'type: "{clipped(asked.type)}" is none of {", ".join(TYPES)}', kind="credential")
    # where the author sits at the terminal a first key is made for them; elsewhere the operator decides
    keys = load_master_keys(os.environ, create=services.settings.local)
    if not keys:
        raise ProblemDetails(
            503, "there is no master key here: its operator sets NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE"
        )
    try:
        stored = await _vault(services, keys).set(name, asked.value, kind=asked.type)
        services.secret_release.reopen()  # the first key may just have been made
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="credential") from None
    return Json(_credential_view(stored))


@router.delete("/api/credentials/{name}", **shows(status=204, summary="Delete a credential"))
async def delete(request: Request, name: str) -> Response:
    if not await _vault(services_of(request), MasterKeys([])).delete(name):
        raise unknown("credential", name)
    return Response(status_code=204)


@router.post("/api/credentials/rotate", **shows(Rotated, summary="Put all under a new master key"))
async def rotate(request: Request) -> Response:
    """An interrupted rotation is finished first. With a key from the environment the operator adds the new one."""
    keys = load_master_keys(os.environ)
    if not keys:
        raise ProblemDetails(
            503, "there is no master key here: its operator sets NOETL_MASTER_KEY or NOETL_MASTER_KEY_FILE"
        )
    services = services_of(request)
    vault = _vault(services, keys)
    if await vault.is_rotated() and keys.file is not None:
        keys = keys.with_new_key()
        vault = vault.under(keys)
    services.secret_release.reopen()
    return Json(Rotated(moved=await vault.rotate(), key_id=keys.newest_id))


def _vault(services: Services, keys: MasterKeys) -> Vault:
    return Vault(services.store.credentials, keys, services.clock)


def _credential_view(one: Credential) -> CredentialView:
    plain = {name: getattr(one, name) for name in ("name", "type", "version", "fingerprint", "key_id")}
    return CredentialView(**plain, created_at=rfc3339(one.created_at), updated_at=rfc3339(one.updated_at))
