"""The first master key: made once for a store, by the server that starts first, and never a second one beside it."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.secrets.encryption import load_master_keys
from noetl.secrets.vault import Vault
from noetl.server.housekeeping import make_first_key
from noetl.store.memory import MemoryStore
from tests.cli.processes_here import Here

CLOCK = ManualClock()


def machine(folder: Path, name: str) -> dict[str, str]:
    """The environment of a server on a machine of its own."""
    (folder / name).mkdir()
    return {"NOETL_MASTER_KEY_FILE": str(folder / name / "master.key")}


async def test_a_server_creates_a_key_readable_by_its_user_only(tmp_path: Path) -> None:
    store, here = MemoryStore(), machine(tmp_path, "one")

    file = await make_first_key(store, CLOCK, here)
    again = await make_first_key(store, CLOCK, here)

    assert file == tmp_path / "one" / "master.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert again is None


async def test_a_second_machine_creates_no_key_and_names_the_missing_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, one, two = MemoryStore(), machine(tmp_path, "one"), machine(tmp_path, "two")
    await make_first_key(store, CLOCK, one)
    key_id = load_master_keys(one).newest_id

    with caplog.at_level(logging.WARNING):
        made = await make_first_key(store, CLOCK, two)

    assert made is None
    assert not (tmp_path / "two" / "master.key").exists()
    assert f"under master key {key_id}, which is not here" in caplog.text
    assert str(tmp_path / "two" / "master.key") in caplog.text


async def test_a_store_with_earlier_credentials_gets_no_second_key(tmp_path: Path) -> None:
    store, one, two = MemoryStore(), machine(tmp_path, "one"), machine(tmp_path, "two")
    keys = load_master_keys(one, create=True)
    await Vault(store.credentials, keys, CLOCK).set("api", "a long enough value", kind="text")

    assert await make_first_key(store, CLOCK, two) is None
    assert not (tmp_path / "two" / "master.key").exists()


async def test_a_key_from_the_environment_is_used(tmp_path: Path) -> None:
    store, two = MemoryStore(), machine(tmp_path, "two")
    given = {"NOETL_MASTER_KEY": base64.b64encode(b"k" * 32).decode(), **machine(tmp_path, "one")}

    assert await make_first_key(store, CLOCK, given) is None
    assert not (tmp_path / "one" / "master.key").exists()
    assert await make_first_key(store, CLOCK, two) is None


async def test_two_machines_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    class Late(MemoryStore):
        """Another server stores its key's id after this one has looked."""

    store, one, two = Late(), machine(tmp_path, "one"), machine(tmp_path, "two")
    looked, overtaking = store.credentials.list, pytest.MonkeyPatch()

    async def list_and_be_overtaken() -> list[object]:
        overtaking.undo()
        await make_first_key(store, CLOCK, one)
        return list(await looked())

    overtaking.setattr(store.credentials, "list", list_and_be_overtaken)

    assert await make_first_key(store, CLOCK, two) is None
    assert (tmp_path / "one" / "master.key").exists()
    assert not (tmp_path / "two" / "master.key").exists()


def test_an_unwritable_folder_does_not_stop_the_server(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = Here(tmp_path)
    try:
        place.server(NOETL_MASTER_KEY_FILE=str(tmp_path / "file" / "master.key"))
        with place.client() as client:
            assert client.list() is not None
    finally:
        place.end()

    assert "no master key could be created" in place.logs()


def test_credentials_can_be_stored_on_a_new_server(tmp_path: Path) -> None:
    place = Here(tmp_path)
    try:
        place.server("--context", "team")
        done = place.call("credential", "set", "api", "--server", "team", "--from-env", "VALUE", VALUE="long enough")
    finally:
        place.end()

    assert done.returncode == 0, done.stderr
    assert f"created a master key for credentials: {place.home / 'master.key'}" in place.logs()


def test_a_detached_server_names_the_missing_key(tmp_path: Path) -> None:
    place = Here(tmp_path)
    try:
        place.server()
        place.end()
        (place.home / "master.key").unlink()
        started = place.call("server", "start", "--detach", "--port", "0", "--context", "team")
        asked = ("credential", "set", "api", "--server", "team", "--from-env", "VALUE")
        refused = place.call(*asked, VALUE="long enough", NOETL_TOKEN=place.token)
        stopped = place.call("server", "stop")
    finally:
        place.end()

    said = "credentials of this store are under master key "
    assert (started.returncode, stopped.returncode) == (0, 0)
    assert f"warning: {said}" in started.stderr
    assert refused.returncode != 0
    assert said in refused.stderr
