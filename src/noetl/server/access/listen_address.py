"""Where a server may listen: on loopback always; elsewhere with tokens, and with TLS or a proxy that does it."""

from __future__ import annotations

from noetl.base.errors import RefusedError
from noetl.server.access.hosts import is_loopback


def check_bind(host: str, *, tls: bool, proxy_flag: bool, has_tokens: bool) -> None:
    """RefusedError with the way out when listening on `host` would leave the door open (reliability.md §3.9)."""
    if is_loopback(host):
        return
    where = f'"{host}" can be reached from other machines'
    if not has_tokens:
        raise RefusedError(
            f"{where}, and there is no token yet, so that nobody could be told from anybody: "
            "make one first with noetl token create NAME --role admin, or listen on 127.0.0.1"
        )
    if not tls and not proxy_flag:
        raise RefusedError(
            f"{where}, and tokens would travel in the clear: give --tls-cert and --tls-key, or say --behind-proxy "
            "when a proxy in front of it does TLS, or listen on 127.0.0.1"
        )
