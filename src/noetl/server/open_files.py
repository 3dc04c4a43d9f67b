"""Open files: how many a server may have, raised at its start as far as the system lets it."""

from __future__ import annotations

import resource

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
