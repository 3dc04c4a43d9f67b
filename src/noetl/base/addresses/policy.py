"""The address policy: which addresses tools and token requests may reach (reliability.md §2.5, SSRF).

The table is our own: the standard library calls several cloud metadata addresses global. An IPv6 address that carries
an IPv4 one (mapped, NAT64, 6to4, …) is judged by both, since either may be where the packets go.

The guard looks a host up once and judges every address it has. A caller connects to an address it was given, never to
the name: a second lookup may have another answer.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import PurePosixPath

import msgspec

from noetl.base.addresses.proxies import OutboundProxies, outbound_proxies
from noetl.base.errors import ToolError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Metadata services of clouds: they give credentials to any process on the machine. No setting can allow them.
METADATA: tuple[Network, ...] = (
    IPv4Network("169.254.0.0/16"),
    IPv4Network("100.100.100.200/32"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.192/32"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::/64"),
    IPv6Network("fd00:c1::a9fe:a9fe/128"),
    IPv6Network("fd00:42::42/128"),
    IPv6Network("fe80::a9fe:a9fe/128"),
)

# Not the public internet: this host, its neighbours, and ranges without public hosts.
PRIVATE_4: tuple[IPv4Network, ...] = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
    )
)
PUBLIC_6 = IPv6Network("2000::/3")  # all assigned public addresses; the others are private, special or unassigned
PRIVATE_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))

_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_LAST_32 = (_MAPPED, _NAT64, IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
_ONES = 0xFFFFFFFF

FLAG = "--allow-address"
SOCKET = "unix:"


class AddressPolicy(msgspec.Struct, frozen=True):
    """The addresses that the operator allows connections to.

    `allow` opens private addresses one by one: networks (`10.1.0.0/16`), addresses, host names (`api.internal`,
    `*.internal`), or Unix sockets by their folder or file (`unix:/run/postgresql`). Metadata addresses stay closed in
    any case.
    """

    allow_private: bool = False
    allow: tuple[str, ...] = ()
    proxies: OutboundProxies | None = None  # None: those of the settings that hold here, as in an embedded run

    def ways_out(self) -> OutboundProxies:
        """The proxies that requests take."""
        if self.proxies is not None:
            return self.proxies
        from noetl.base.settings import load_settings

        settings = load_settings().settings
        return outbound_proxies(settings.proxy, settings.no_proxy, os.environ)

    def refusal(self, host: str, address: Address) -> str | None:
        """Why `address`, which `host` resolved to, may not be reached; None when it may."""
        # An IPv6 address may only be another way of writing a private IPv4 one: 64:ff9b::a9fe:a9fe is 169.254.169.254.
        everywhere = (address, *embedded_ipv4(address))
        if any(_is_in_any(one, METADATA) for one in everywhere):
            return "a metadata address, which is never reached"
        # Metadata is refused above this line: no flag of an operator opens it.
        if self.allow_private or self._allows(host, everywhere):
            return None
        if any(is_private(one) for one in everywhere):
            return (
                f"a private address, which is closed; {FLAG} {address} of the worker or server that tries it allows it"
            )
        return None

    def socket_refusal(self, path: str) -> str | None:
        """Why the Unix socket at `path` may not be reached; None when it may."""
        if self.allow_private:
            return None
        place = PurePosixPath(posixpath.normpath(path))
        folders = [entry.removeprefix(SOCKET) for entry in self.allow if entry.startswith(SOCKET)]
        # A relative path keeps its leading `..` when it is normalised, and could leave the folder.
        if ".." not in place.parts and any(place.is_relative_to(posixpath.normpath(folder)) for folder in folders):
            return None
        return f"a Unix socket, which is closed; {FLAG} {SOCKET}{path} of the worker or server that tries it allows it"

    def unresolved_refusal(self, host: str) -> str | None:
        """Why a proxy may not be asked for a host whose address is not known here; None when it may."""
        named, _ = _read(self.allow)
        if self.allow_private or any(_matches(host.lower().rstrip("."), one) for one in named):
            return None
        return f"its address is not known here, so a private one cannot be ruled out; {FLAG} {host} allows it"

    def _allows(self, host: str, everywhere: tuple[Address, ...]) -> bool:
        named, networks = _read(self.allow)
        if any(_matches(host.lower().rstrip("."), one) for one in named):
            return True
        # All of them: an address that contains two others is open only if both are.
        return all(not is_private(one) or _is_in_any(one, networks) for one in everywhere)


OPEN = AddressPolicy(allow_private=True)  # an embedded run: the author sits at the terminal (design.md §7)
CLOSED = AddressPolicy()


def is_private(address: Address) -> bool:
    """Whether this is anything but a public address. One that carries a public IPv4 address is public."""
    if isinstance(address, IPv4Address):
        return _is_in_any(address, PRIVATE_4)
    if address in _MAPPED or address in _NAT64:
        return False  # only another form of the IPv4 address, which is checked too
    return address not in PUBLIC_6 or _is_in_any(address, PRIVATE_6)


def embedded_ipv4(address: Address) -> tuple[IPv4Address, ...]:
    """Every IPv4 address that this address may contain."""
    if isinstance(address, IPv4Address):
        return ()
    return tuple(IPv4Address(bits & _ONES) for bits in _carried_bits(address))


def _carried_bits(address: IPv6Address) -> Iterator[int]:
    bits = int(address)
    if any(address in network for network in _LAST_32):
        yield bits
    if address in _LOCAL_NAT64:  # RFC 6052: behind a prefix of 48, 56, 64 or 96 bits, bits 64 to 71 left out
        yield (bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF
        yield (bits >> 64 & 0xFF) << 24 | bits >> 32 & 0xFFFFFF
        yield bits >> 24
        yield bits
    if address in _SIX_TO_FOUR:
        yield bits >> 80
    if address in _TEREDO:
        yield bits >> 64
        # Teredo writes the address of the client with all bits inverted (RFC 4380).
        yield ~bits
    # ISATAP has no prefix of its own: bits 32 to 63 mark it, in any network.
    if (bits >> 32 & _ONES) in _ISATAP:
        yield bits


def _is_in_any(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


@lru_cache(maxsize=64)
def _read(allow: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Network, ...]]:
    """The host names and the networks of an allow list."""
    names: list[str] = []
    networks: list[Network] = []
    for entry in allow:
        if entry.startswith(SOCKET):
            continue
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            names.append(entry.lower().rstrip("."))
    return tuple(names), tuple(networks)


def _matches(host: str, allowed: str) -> bool:
    # With its dot: `*.internal` must not match `notinternal`.
    return host.endswith(allowed[1:]) if allowed.startswith("*.") else host == allowed


def literal(host: str) -> Address | None:
    """The address that `host` is, when it is one in its usual spelling; other spellings are the resolver's."""
    try:
        return ip_address(host)
    except ValueError:
        return None


Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class BlockedError(ToolError):
    """The policy does not let this host be reached."""

    def __init__(self, why: str) -> None:
        super().__init__("tool.not_allowed", why, code="blocked")


class UnresolvedError(ToolError):
    """The host's name is not known."""

    def __init__(self, why: str) -> None:
        super().__init__("tool.unreachable", why, retryable=True, code="dns")


async def resolved(host: str, port: int) -> Sequence[Address]:
    """Every address of a host from the resolver of the system, in its order."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise UnresolvedError(getattr(problem, "strerror", None) or str(problem)) from None
    addresses = (literal(str(address[0])) for _, _, _, _, address in found)
    # `getaddrinfo` may name an address several times. The order is the preference of the system, so it stays.
    return list(dict.fromkeys(address for address in addresses if address is not None))


class AddressGuard:
    """An AddressPolicy and a resolver. All connections get their addresses from it."""

    def __init__(self, policy: AddressPolicy = OPEN, *, resolve: Resolve = resolved) -> None:
        self.policy = policy
        self._resolve = resolve

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of `host`, all of which may be reached. BlockedError or UnresolvedError otherwise."""
        written = literal(host.removesuffix("."))
        addresses = [written] if written is not None else await self._resolve(host, port)
        if not addresses:
            raise UnresolvedError("it has no address")
        # One forbidden address is enough: an answer with both kinds may be meant to get past the guard.
        for address in addresses:
            if why := self.policy.refusal(host, address):
                raise BlockedError(f"{address} is {why}" if written is not None else f"it is at {address}, {why}")
        return addresses

    async def allow_by_proxy(self, host: str, port: int) -> None:
        """Return if a proxy may be asked for `host`, else raise BlockedError. The proxy resolves the name again and
        applies its own limits; the checks that need no lookup are made here."""
        try:
            await self.addresses(host, port)
        except UnresolvedError:
            if why := self.policy.unresolved_refusal(host):
                raise BlockedError(why) from None

    async def address(self, what: str, host: str, port: int) -> str:
        """The first address of `host`, for drivers that take one. The error says `what` could not be reached."""
        try:
            return str((await self.addresses(host, port))[0])
        except BlockedError as problem:
            raise BlockedError(f"{what} is blocked: {problem.message}") from None
        except UnresolvedError as problem:
            raise UnresolvedError(f"{what} cannot be reached: the host was not found ({problem.message})") from None

    def allow_socket(self, what: str, path: str) -> None:
        """Return if a Unix socket may be reached, else raise BlockedError."""
        if why := self.policy.socket_refusal(path):
            raise BlockedError(f"{what} is blocked: {path} is {why}")


UNGUARDED = AddressGuard()  # an embedded run: loopback and private addresses are open (design.md §7)
