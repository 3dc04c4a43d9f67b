"""Origins: where requests come from, as far as that tells people apart."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

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
