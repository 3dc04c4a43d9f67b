"""Which master key a store is used with, by its id alone.

Whoever comes to the store without that key makes none of its own: nobody could read what two would seal under different
keys.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import RefusedError
from noetl.secrets.master_keys import FILE_VARIABLE, VARIABLE, has_master_keys, key_file
from noetl.store.contract import Store
from noetl.store.key_values import KeyValues

KIND, NAME = "master_key", "first"


class _FirstKey(msgspec.Struct, frozen=True):
    key_id: str


async def recorded_key_id(key_values: KeyValues) -> str | None:
    """The id of the first key that was used here; None for a store that has never had one."""
    found = await key_values.get(KIND, NAME)
    return None if found is None else msgspec.json.decode(found.body, type=_FirstKey).key_id


async def used_key_id(store: Store) -> str | None:
    """The same, also for a store with credentials from before keys were recorded."""
    if (key_id := await recorded_key_id(store.key_values)) is not None:
        return key_id
    return next((one.key_id for one in await store.credentials.list()), None)


async def record_key_id(key_values: KeyValues, clock: Clock, key_id: str) -> str:
    """The id that the store has from now on: this one, unless there was one before."""
    await key_values.put(KIND, NAME, msgspec.json.encode(_FirstKey(key_id)), over=0, at=clock.now())
    return await recorded_key_id(key_values) or key_id


async def refuse_second_key(store: Store, environment: Mapping[str, str]) -> None:
    """RefusedError where there is no key here, and the store is used with one."""
    if not has_master_keys(environment) and (key_id := await used_key_id(store)) is not None:
        raise RefusedError(key_is_elsewhere(key_id, environment))


def key_is_elsewhere(key_id: str, environment: Mapping[str, str]) -> str:
    return (
        f"credentials of this store are under master key {key_id}, which is not here, so none can be read or stored: "
        f"copy its file from the server that made it to {key_file(environment)}, or set {VARIABLE} or {FILE_VARIABLE}"
    )
