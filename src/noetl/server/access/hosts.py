"""Names and addresses: which host names this server accepts, where it may listen, and where requests come from.

A page whose name was made to point here (DNS rebinding) sends its own name as `Host`, so the server can refuse it
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
    """The host of `host:port` in lower case, without brackets; None for any other text."""
    match = _AUTHORITY.fullmatch(authority)
    return match["host"].strip("[]").lower() if match else None


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Hosts:
    """The accepted host names: the loopback names, and those the operator adds: `noetl.example.org`, or `*.example.org`
    for every name below it. RefusedError for an invalid name."""

    def __init__(self, added: Iterable[str] = ()) -> None:
        self._names, self._endings = set(LOOPBACK_NAMES), list[str]()
        for pattern in added:
            name = host_name(pattern.removeprefix("*."))
            # `*.com` would accept names of other people.
            if name is None or (pattern.startswith("*.") and "." not in name):
                raise RefusedError(
                    f'--allowed-host "{pattern}" is not a host name: write noetl.example.org, or *.example.org'
                )
            if pattern.startswith("*."):
                self._endings.append(f".{name}")
            else:
                self._names.add(name)

    def know(self, authority: str) -> bool:
        name = host_name(authority)
        return name is not None and (name in self._names or name.endswith(tuple(self._endings)))


def check_bind(host: str, *, tls: bool, proxy_flag: bool, has_tokens: bool) -> None:
    """Check that a server may listen on `host`: on loopback always; elsewhere only with tokens, and with TLS or a
    proxy that terminates it. RefusedError names the fix (reliability.md §3.9)."""
    if is_loopback(host):
        return
    where = f'"{host}" can be reached from other machines'
    if not has_tokens:
        raise RefusedError(
            f"{where}, and there is no token yet, so callers could not be identified: "
            "create one first with noetl token create NAME --role admin, or listen on 127.0.0.1"
        )
    if not tls and not proxy_flag:
        raise RefusedError(
            f"{where}, and tokens would be sent unencrypted: use --tls-cert and --tls-key, or --behind-proxy "
            "if a proxy in front of it does TLS, or listen on 127.0.0.1"
        )


_THIS_MACHINE = ("127.0.0.0/8", "::1")
# One user usually has a whole IPv6 /64 network, so limits by single address could be avoided.
_OWN_PREFIX = 64


@lru_cache(maxsize=10_000)
def network_of(address: str) -> str:
    """The IPv4 address itself, or the /64 network of an IPv6 address. A text that is no address is returned as it
    is."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return str(ip)
    # A socket for both families reports IPv4 callers as ::ffff:1.2.3.4; they are the same caller.
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip) if ip.is_loopback else str(ip_network((ip, _OWN_PREFIX), strict=False))


def trusted_proxies(networks: Sequence[str]) -> list[str]:
    """The networks whose X-Forwarded-For is trusted: these, by default this machine. RefusedError for an invalid
    one."""
    for network in networks:
        try:
            ip_network(network, strict=False)
        except ValueError:
            raise RefusedError(
                f'--trusted-proxy "{network}" is not an address: write one like 10.0.0.7, or a network like 10.0.0.0/8'
            ) from None
    return [str(ip_network(network, strict=False)) for network in networks or _THIS_MACHINE]
