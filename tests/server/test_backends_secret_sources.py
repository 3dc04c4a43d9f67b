"""What keychain entries of a server may read of its machine: what its operator names in the settings (KEY-07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError, ToolError
from noetl.base.settings import load_settings
from noetl.cli.server_process import server_settings
from noetl.net.net import KeychainEntry
from noetl.server.backends import open_server_keychain
from noetl.store.installation import MemoryCredentials
from tests.secrets.vaults import entry


async def value_of(one: KeychainEntry, folder: Path, **variables: str) -> object:
    settings = server_settings(load_settings(environment=variables, folder=folder).settings)
    keychain = open_server_keychain(MemoryCredentials(), ManualClock(), settings)
    return (await keychain.material((one,), one.name)).fields["value"]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORDERS_KEY", "from the environment")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("from a file\n")


@pytest.mark.req("KEY-07")
async def test_a_server_reads_the_variables_and_folders_its_operator_configured(tmp_path: Path) -> None:
    named = {"NOETL_SECRET_VARIABLES": "OTHER,ORDERS_KEY", "NOETL_SECRET_FOLDERS": str(tmp_path / "secrets")}

    variable = await value_of(entry("api", "env", var="ORDERS_KEY"), tmp_path, **named)
    file = await value_of(entry("api", "file", path=str(tmp_path / "secrets" / "key")), tmp_path, **named)

    assert (variable, file) == ("from the environment", "from a file")


@pytest.mark.req("KEY-07")
async def test_a_server_reads_no_other_variables_and_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="secret_variables"):
        await value_of(entry("api", "env", var="ORDERS_KEY"), tmp_path, NOETL_SECRET_VARIABLES="OTHER")
    with pytest.raises(ToolError, match="secret_folders"):
        await value_of(entry("api", "file", path=str(tmp_path / "secrets" / "key")), tmp_path)


async def test_noetl_settings_cannot_be_configured_as_secret_variables(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="NOETL_MASTER_KEY is a variable of noetl itself"):
        await value_of(entry("api", "env", var="X"), tmp_path, NOETL_SECRET_VARIABLES="NOETL_MASTER_KEY")
