"""The vault: sealed at rest, bound to its name, rotated without a stop (KEY-07, reliability.md §2.6)."""

from __future__ import annotations

import os
import sqlite3
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, RefusedError
from noetl.events.secret_materials import SealedCredential
from noetl.secrets.encryption import MasterKeys, load_master_keys, opened, seal
from noetl.secrets.vault import MAX_BYTES, Vault
from noetl.store.installation import MemoryCredentials
from noetl.store.sqlite.store import SqliteStore
from tests.secrets.vaults import new_vault

KEY = os.urandom(32)


def sealed(name: str = "pg", value: bytes = b"{}") -> SealedCredential:
    return seal(name, "text", 1, value, MasterKeys([KEY]), now=1.0)


async def test_a_stored_credential_is_read_back_with_its_type() -> None:
    vault = new_vault()

    await vault.set("pg", {"host": "db", "user": "app", "password": "hunter22"}, kind="postgres")

    found = await vault.fields("pg")
    assert found == ("postgres", {"type": "postgres", "host": "db", "user": "app", "password": "hunter22"})
    assert await vault.fields("other") is None


async def test_setting_a_credential_again_replaces_the_old_version() -> None:
    clock = ManualClock()
    vault = new_vault(clock)
    first = await vault.set("t", "value-one", kind="text")
    clock.advance(60)

    second = await vault.set("t", "value-two", kind="text")

    assert (first.version, second.version) == (1, 2)
    assert second.created_at == first.created_at < second.updated_at
    assert await vault.fields("t") == ("text", {"value": "value-two"})
    with pytest.raises(BackendError, match="version 1 of credential"):
        await vault.fields("t", version=1)


async def test_listing_credentials_shows_no_value() -> None:
    """Write-only: what comes back is metadata and a fingerprint, the same for the same value only."""
    vault = new_vault()
    for name, value in {"a": "the very same", "b": "the very same", "c": "another one"}.items():
        await vault.set(name, value, kind="text")

    listed = await vault.list()

    assert "the very same" not in repr(listed)
    assert listed[0].fingerprint == listed[1].fingerprint != listed[2].fingerprint


@pytest.mark.req("KEY-06")
async def test_the_store_contains_no_byte_of_a_value(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore.open(path)
    vault = Vault(store.credentials, MasterKeys([KEY]), ManualClock())
    await vault.set("t", "canary-value-1", kind="text")
    await vault.set("t", "canary-value-2", kind="text")
    assert await vault.fields("t") == ("text", {"value": "canary-value-2"})
    await store.close()

    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"canary-value" not in written
    assert KEY not in written


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "other"},
        {"type": "postgres"},
        {"version": 2},
        {"sealed": b"\0" * 40},
        {"sealed": b""},
        {"wrapped_key": b"\0" * 60},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_or_swapped_row_cannot_be_decrypted(changed: dict[str, object]) -> None:
    with pytest.raises(BackendError, match="is not what was stored"):
        opened(msgspec.structs.replace(sealed(), **changed), MasterKeys([KEY]))


def test_values_of_two_rows_cannot_be_swapped() -> None:
    """The value of one credential in the row of another: the associated data says whose it is."""
    mine, theirs = sealed("a", b"mine"), sealed("b", b"theirs")

    with pytest.raises(BackendError):
        opened(msgspec.structs.replace(mine, sealed=theirs.sealed, wrapped_key=theirs.wrapped_key), MasterKeys([KEY]))


def test_a_missing_master_key_is_named_without_the_value() -> None:
    with pytest.raises(BackendError, match=r'credential "pg" cannot be opened: master key \w{12} is needed'):
        opened(sealed(value=b"secret"), MasterKeys([os.urandom(32)]))


def test_equal_values_have_different_ciphertexts() -> None:
    assert sealed(value=b"same").sealed != sealed(value=b"same").sealed


async def test_rotation_re_encrypts_every_row_and_old_rows_stay_readable() -> None:
    credentials, old, new = MemoryCredentials(), os.urandom(32), os.urandom(32)
    vault = Vault(credentials, MasterKeys([old]), ManualClock())
    for number in range(5):
        await vault.set(f"c{number}", f"value {number}", kind="text")
    both = vault.under(MasterKeys([old, new]))
    assert not await both.is_rotated()

    assert await both.rotate() == 5

    assert await both.is_rotated()
    only_new = vault.under(MasterKeys([new]))
    assert [(await only_new.fields(f"c{n}")) for n in range(5)] == [("text", {"value": f"value {n}"}) for n in range(5)]
    assert await both.rotate() == 0, "again is harmless"


async def test_an_interrupted_rotation_resumes_where_it_stopped() -> None:
    class Breaks(MemoryCredentials):
        left = 2

        async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
            if over is not None and row.key_id != over.key_id:
                self.left -= 1
                if self.left < 0:
                    raise BackendError("the disk is full")
            return await super().put(row, over=over)

    credentials, old, new = Breaks(), os.urandom(32), os.urandom(32)
    vault = Vault(credentials, MasterKeys([old]), ManualClock())
    for number in range(5):
        await vault.set(f"c{number}", f"value {number}", kind="text")
    both = vault.under(MasterKeys([old, new]))
    with pytest.raises(BackendError):
        await both.rotate()
    assert await both.fields("c0") == ("text", {"value": "value 0"})
    assert await both.fields("c4") == ("text", {"value": "value 4"})

    credentials.left = 99
    assert await both.rotate() == 3


async def test_a_credential_set_during_rotation_is_not_lost() -> None:
    class Races(MemoryCredentials):
        vault: Vault

        async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
            if over is not None and row.version == over.version == 1:
                await self.vault.set("t", "newer value", kind="text")
            return await super().put(row, over=over)

    credentials, old, new = Races(), os.urandom(32), os.urandom(32)
    credentials.vault = Vault(credentials, MasterKeys([old]), ManualClock())
    await credentials.vault.set("t", "first value", kind="text")
    both = credentials.vault.under(MasterKeys([old, new]))

    await both.rotate()

    assert await both.fields("t") == ("text", {"value": "newer value"})
    assert await both.is_rotated()


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("basic", "no-colon", "user:password"),
        ("basic", {"username": "u"}, "needs password"),
        ("bearer", {"scope": "x"}, "needs token"),
        ("postgres", {"user": "u"}, "needs a dsn"),
        ("postgres", "mysql://h/db", "begins with postgresql://"),
        ("oauth2", "text", "token_url, client_id"),
        ("text", "x" * (MAX_BYTES + 1), "at most"),
    ],
)
async def test_an_unusable_credential_is_refused(kind: str, given: str | dict[str, str], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        await new_vault().set("c", given, kind=kind)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201])
async def test_an_unprintable_name_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="name"):
        await new_vault().set(name, "value", kind="text")


class TestMasterKeys:
    async def test_nothing_is_encrypted_without_a_master_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There is no default key."""
        monkeypatch.setenv("NOETL_HOME", str(tmp_path))
        keys = load_master_keys({})

        with pytest.raises(RefusedError, match="there is no master key"):
            await Vault(MemoryCredentials(), keys, ManualClock()).set("a", "value", kind="text")
        assert list(tmp_path.iterdir()) == []

    def test_the_first_master_key_is_readable_by_its_owner_only(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))

        made = load_master_keys({}, create=True)

        file = tmp_path / "home" / "master.key"
        assert file.stat().st_mode & 0o777 == 0o600
        assert load_master_keys({}).newest_id == made.newest_id
        assert list(file.parent.iterdir()) == [file]

    def test_a_key_file_that_others_can_read_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)}, create=True)
        file.chmod(0o640)

        with pytest.raises(BackendError, match="chmod 600"):
            load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)})

    def test_a_new_key_starts_a_new_line_in_a_file_without_a_final_newline(self, tmp_path: Path) -> None:
        file, old = tmp_path / "key", os.urandom(32)
        file.touch(mode=0o600)
        file.write_bytes(b64encode(old))  # as `base64` without a newline writes it
        first = load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)})

        second = first.with_new_key()

        assert second.newest_id != first.newest_id
        assert second.key(first.newest_id) == old

    def test_a_new_key_is_appended_and_the_old_ones_stay(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        first = load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)}, create=True)

        second = first.with_new_key()

        again = load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)})
        assert again.newest_id == second.newest_id != first.newest_id
        assert again.key(first.newest_id) == first.key(first.newest_id)
        assert file.stat().st_mode & 0o777 == 0o600

    def test_one_of_two_processes_that_create_the_first_key_wins(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        mine, theirs = MasterKeys([], file=file), MasterKeys([], file=file)

        assert mine.with_new_key().newest_id == theirs.with_new_key().newest_id

    @pytest.mark.parametrize("written", ["not base64!", "c2hvcnQ=", "#only a comment\n"])
    def test_an_invalid_key_is_refused_and_not_shown(self, tmp_path: Path, written: str) -> None:
        file = tmp_path / "key"
        file.write_text(written)
        file.chmod(0o600)

        with pytest.raises(BackendError, match="master key") as refused:
            load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)})

        assert written.strip() not in str(refused.value)

    def test_a_named_key_file_that_is_missing_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(BackendError, match="is not there"):
            load_master_keys({"NOETL_MASTER_KEY_FILE": str(tmp_path / "nowhere")})

    def test_keys_from_the_environment_cannot_be_extended(self) -> None:
        import base64

        keys = load_master_keys({"NOETL_MASTER_KEY": base64.b64encode(KEY).decode()})

        with pytest.raises(RefusedError, match="NOETL_MASTER_KEY"):
            keys.with_new_key()

    def test_keys_are_printed_by_id_only(self) -> None:
        assert KEY.hex() not in repr(MasterKeys([KEY]))
        assert repr(KEY)[2:-1] not in repr(MasterKeys([KEY]))


async def test_the_store_reports_a_missing_table(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("DROP TABLE credential")
    database.close()

    with pytest.raises(BackendError, match="failed"):
        await store.credentials.get("x")
    await store.close()
