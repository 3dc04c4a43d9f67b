"""Secrets of a server: which variables and files its keychain may read. None, unless the operator names them; where the
author sits at the terminal, as in an embedded run (design.md §7).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.base.addresses.guard import AddressGuard
from noetl.base.addresses.policy import AddressPolicy
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.clock import Clock
from noetl.base.errors import RefusedError
from noetl.server.configuration import ServerSettings
from noetl.store.credentials import CredentialRows

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain


def open_server_keychain(credentials: CredentialRows, clock: Clock, settings: ServerSettings) -> Keychain:
    from noetl.secrets.contract import Sources
    from noetl.secrets.keychain import Keychain
    from noetl.secrets.master_key_loading import open_keychain
    from noetl.secrets.master_keys import load_master_keys
    from noetl.secrets.token_requests import TokenRequests
    from noetl.secrets.vault import Vault

    if settings.local:
        return open_keychain(credentials, clock)
    vault = Vault(credentials, load_master_keys(os.environ), clock)
    environment = {name: os.environ[name] for name in settings.secret_variables if name in os.environ}
    proxies = outbound_proxies(settings.proxy, settings.no_proxy, os.environ)
    post = TokenRequests(AddressGuard(AddressPolicy(allow=settings.allow_addresses, proxies=proxies)))
    return Keychain(
        Sources(
            environment=environment,
            vault=vault,
            clock=clock,
            read_file=_reader(settings),
            post=post,
            sees_environment=False,
        )
    )


class _reader:  # noqa: N801  a function with the folders it may look into
    def __init__(self, settings: ServerSettings) -> None:
        self._folders = [Path(folder).resolve() for folder in settings.secret_folders]

    def __call__(self, path: str) -> str:
        from noetl.secrets.master_key_loading import read_file

        file = Path(path.removeprefix("file://")).expanduser().resolve()
        if not any(file.is_relative_to(folder) for folder in self._folders):
            raise RefusedError(
                "this server reads no such file: its operator names the folders of secrets (secret_folders)"
            )
        return read_file(str(file))
