"""What a server does once, before it listens: raise its limit of open files, and make the first master key.

The store records the id of that key. So a second server on the same store, on a machine without the key, makes none of
its own: nobody could read what the two would encrypt under different keys.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path

from noetl.base.clock import Clock
from noetl.operations.credentials import key_is_elsewhere, record_key_id, used_key_id
from noetl.secrets.master_keys import VARIABLE, has_master_keys, key_file, load_master_keys
from noetl.server.logs import log
from noetl.store.contract import Store

WANTED = 65_536
_FOR_OURSELVES = 200  # files, pipes and connections of the server's own


def raise_limit() -> int:
    """Raise the limit of this process, and give what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return WANTED if soft == resource.RLIM_INFINITY else soft


def connections_within(open_files: int, wanted: int) -> int:
    """How many connections there is room for."""
    return max(16, min(wanted, open_files - _FOR_OURSELVES))


async def make_first_key(store: Store, clock: Clock, environment: Mapping[str, str]) -> Path | None:
    """The file of the key that was made; None where there is one already, or none may be made, which is logged."""
    if has_master_keys(environment):
        await record_key_id(store.key_values, clock, load_master_keys(environment).newest_id)
        return None
    if (missing := await used_key_id(store)) is not None:
        log.warning(key_is_elsewhere(missing, environment))
        return None
    try:
        keys = load_master_keys(environment, create=True)
    except OSError as problem:
        log.warning(f"no master key could be made ({problem}), so no credential can be stored: set {VARIABLE}")
        return None
    kept = await record_key_id(store.key_values, clock, keys.newest_id)
    if kept != keys.newest_id:  # a server on another machine was faster: its key is the one
        key_file(environment).unlink()
        log.warning(key_is_elsewhere(kept, environment))
        return None
    return keys.file
