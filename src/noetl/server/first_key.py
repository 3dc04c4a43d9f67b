"""The first master key of an installation: a server that has none makes one when it starts.

The store remembers which key that was, by its id alone. So a second server on the same store, on a machine without the
key, makes none of its own: nobody could read what the two would seal under different keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from noetl.base.clock import Clock
from noetl.secrets.master_keys import FILE_VARIABLE, VARIABLE, has_master_keys, key_file, load_master_keys
from noetl.server.logs import log
from noetl.store.contract import Store

KIND, NAME = "master_key", "first"


class _FirstKey(msgspec.Struct, frozen=True):
    key_id: str


async def make_first_key(store: Store, clock: Clock, environment: Mapping[str, str]) -> Path | None:
    """The file of the key that was made; None where there is one already, or none may be made, which is logged."""
    if has_master_keys(environment):
        await _remember(store, clock, load_master_keys(environment).newest_id)
        return None
    if (missing := await _key_elsewhere(store)) is not None:
        log.warning(key_is_elsewhere(missing, environment))
        return None
    try:
        keys = load_master_keys(environment, create=True)
    except OSError as problem:
        log.warning(f"no master key could be made ({problem}), so no credential can be stored: set {VARIABLE}")
        return None
    kept = await _remember(store, clock, keys.newest_id)
    if kept != keys.newest_id:  # a server on another machine was faster: its key is the one
        key_file(environment).unlink()
        log.warning(key_is_elsewhere(kept, environment))
        return None
    return keys.file


def key_is_elsewhere(key_id: str, environment: Mapping[str, str]) -> str:
    return (
        f"credentials of this store are under master key {key_id}, which is not here, so none can be read or stored: "
        f"copy its file from the server that made it to {key_file(environment)}, or set {VARIABLE} or {FILE_VARIABLE}"
    )


async def _key_elsewhere(store: Store) -> str | None:
    """The id of a key that this store is used with; None for a store that has never had one."""
    if (thing := await store.key_values.get(KIND, NAME)) is not None:
        return msgspec.json.decode(thing.body, type=_FirstKey).key_id
    return next((one.key_id for one in await store.credentials.list()), None)


async def _remember(store: Store, clock: Clock, key_id: str) -> str:
    """The id that the store has from now on: this one, unless there was one before."""
    body = msgspec.json.encode(_FirstKey(key_id))
    await store.key_values.put(KIND, NAME, body, over=0, at=clock.now())
    thing = await store.key_values.get(KIND, NAME)
    return msgspec.json.decode(thing.body, type=_FirstKey).key_id if thing is not None else key_id
