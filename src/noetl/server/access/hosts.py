"""Names and addresses: which names this server answers to, where it may listen, and where requests come from.

A page whose name was made to point here (DNS rebinding) sends its own name as `Host`, and is refused by it
(reliability.md §2.3).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from noetl.base.errors import RefusedError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::\d{1,5})?", re.I)


def host_name(authority: str) -> str | None:
    """The host of `host:port` in lower case, without brackets; None when that is not what it is."""
    found = _AUTHORITY.fullmatch(authority)
    return found["host"].strip("[]").lower() if found else None


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Hosts:
    """The loopback names, and those the operator adds: `noetl.example.org`, or `*.example.org` for every name below it.
    RefusedError for what is no name."""

    def __init__(self, added: Iterable[str] = ()) -> None:
        self._names, self._endings = set(LOOPBACK_NAMES), list[str]()
        for written in added:
            name = host_name(written.removeprefix("*."))
            if name is None or (written.startswith("*.") and "." not in name):
                raise RefusedError(
                    f'--allowed-host "{written}" is no name: write noetl.example.org, or *.example.org for all below it'
                )
            if written.startswith("*."):
                self._endings.append(f".{name}")
            else:
                self._names.add(name)

    def know(self, authority: str) -> bool:
        name = host_name(authority)
        return name is not None and (name in self._names or name.endswith(tuple(self._endings)))


def check_bind(host: str, *, tls: bool, proxy_flag: bool, has_tokens: bool) -> None:
    """A server may listen on loopback always; elsewhere with tokens, and with TLS or a proxy that does it. RefusedError
    with the way out when listening on `host` would leave the door open (reliability.md §3.9)."""
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


_THIS_MACHINE = ("127.0.0.0/8", "::1")
_OWN_PREFIX = 64  # of IPv6: who has one address has all of these


@lru_cache(maxsize=10_000)
def network_of(address: str) -> str:
    """The address itself; of IPv6 its /64, which one person has at least. What is no address stays as it is."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found) if found.is_loopback else str(ip_network((found, _OWN_PREFIX), strict=False))


def trusted_proxies(written: Sequence[str]) -> list[str]:
    """The networks whose X-Forwarded-For is believed: these, or this machine. RefusedError for what is no network."""
    for one in written:
        try:
            ip_network(one, strict=False)
        except ValueError:
            raise RefusedError(
                f'--trusted-proxy "{one}" is no address: write one, such as 10.0.0.7, or a network, such as 10.0.0.0/8'
            ) from None
    return [str(ip_network(one, strict=False)) for one in written or _THIS_MACHINE]
