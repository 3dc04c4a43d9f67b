"""The promises about sealed credentials, kept by every store (KEY-07)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.events.secret_materials import SealedCredential
from noetl.store.contract import Store
from noetl.store.installation import CredentialRows


@pytest.fixture
def credentials(store: Store) -> CredentialRows:
    return store.credentials


def row(name: str = "a", version: int = 1, key_id: str = "k1") -> SealedCredential:
    return SealedCredential(
        name=name,
        type="text",
        version=version,
        key_id=key_id,
        wrapped_key=b"\0\xff wrapped",
        sealed=b"\0\xff sealed",
        fingerprint="f",
        created_at=1.5,
        updated_at=2.5,
    )


async def test_stored_credentials_are_read_back_unchanged_by_name(credentials: CredentialRows) -> None:
    for name in ("b", "a", "c"):
        assert await credentials.put(row(name), over=None)

    assert await credentials.get("b") == row("b")
    assert [one.name for one in await credentials.list()] == ["a", "b", "c"]
    assert await credentials.get("other") is None


async def test_a_credential_is_replaced_only_over_the_version_that_was_read(credentials: CredentialRows) -> None:
    await credentials.put(row(), over=None)

    assert not await credentials.put(row(version=9), over=None), "it exists already"
    assert await credentials.put(row(version=2), over=row(version=1))
    assert not await credentials.put(row(version=2), over=row(version=1)), "it has moved on"
    assert await credentials.put(row(version=2, key_id="k2"), over=row(version=2))
    assert not await credentials.put(row(version=3), over=row(version=2)), "it was rotated meanwhile"

    assert await credentials.get("a") == row(version=2, key_id="k2")


async def test_a_deleted_credential_is_gone(credentials: CredentialRows) -> None:
    await credentials.put(row(), over=None)

    assert await credentials.delete("a")
    assert not await credentials.delete("a")
    assert await credentials.list() == []
    assert not await credentials.put(msgspec.structs.replace(row(), version=2), over=row()), "nothing to replace"
