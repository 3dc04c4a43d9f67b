"""Origins: where requests come from, as far as that tells people apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from noetl.base.errors import RefusedError

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
