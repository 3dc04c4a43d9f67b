"""Ports for servers that must come back at the same address: free now, and reserved meanwhile.

The system may give an ephemeral port to another connection while its server is down or not up yet. These ports are
below the ephemeral range, and no two test processes take the same: each holds a lock by name, which the system releases
with the process.
"""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

_SPAN = 12_000
_STRIDE = 97  # ports that one process has before it comes to those of the next
_turn = itertools.count()


def free_port() -> int:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for number in itertools.islice(_turn, _SPAN):
        port = lowest - _SPAN + (os.getpid() * _STRIDE + number) % _SPAN
        if _is_ours(port) and _is_free(port):
            return port
    raise AssertionError("no port is free")


def _is_ours(port: int) -> bool:
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0noetl test port {port}")
    except OSError:
        name.close()
        return False
    name.detach()  # held for as long as this process lives
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
