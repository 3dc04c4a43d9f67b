"""Outbound proxies: which proxy an http request takes, as the operator has configured it.

The setting `proxy` is for both schemes. Without it the variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY hold, in either
case. `no_proxy`, or the variable NO_PROXY, names hosts that are reached directly; this machine always is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.errors import RefusedError

_PORTS = {"http": 80, "https": 443}


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a proxy, and the login there, which is a secret."""

    scheme: str
    host: str
    port: int
    login: tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"Proxy({self.scheme}://{self.host}:{self.port})"


class OutboundProxies(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy of each scheme, and `exempt`, the hosts that need none."""

    http: Proxy | None = None
    https: Proxy | None = None
    exempt: tuple[str, ...] = ()

    def proxy_for(self, scheme: str, host: str, port: int | None) -> Proxy | None:
        """The proxy of a request; None where it goes there directly."""
        proxy = self.https if scheme == "https" else self.http
        # A proxy would look for localhost on its own machine.
        if proxy is None or _is_this_machine(host):
            return None
        named = host.lower().rstrip(".")
        asked = port or _PORTS.get(scheme, 0)
        return None if any(_matches(entry, named, asked) for entry in self.exempt) else proxy


DIRECT = OutboundProxies()


def outbound_proxies(proxy: str | None, no_proxy: Sequence[str], environment: Mapping[str, str]) -> OutboundProxies:
    """The configured proxies. RefusedError names an invalid one, without its password."""
    # A setting replaces the variable as a whole: if the two were joined, an operator could not remove an entry.
    exempt = tuple(no_proxy) or tuple(_host_list(_variable(environment, "no_proxy") or ""))
    if proxy:
        both = parsed_proxy(proxy, "proxy")
        return OutboundProxies(http=both, https=both, exempt=exempt)
    found: dict[str, Proxy] = {}
    for scheme in _PORTS:
        for name in (f"{scheme}_proxy", "all_proxy"):
            if scheme not in found and (written := _variable(environment, name)):
                found[scheme] = parsed_proxy(written, name.upper())
    return OutboundProxies(http=found.get("http"), https=found.get("https"), exempt=exempt)


def parsed_proxy(written: str, origin: str) -> Proxy:
    """`http://user:password@host:port`; the scheme may be left out."""
    parts = urlsplit(written if "://" in written else f"http://{written}")
    try:
        port = parts.port
    except ValueError:
        # Reported below together with the other mistakes, and without the URL, which may hold a password.
        port = -1
    if parts.scheme not in _PORTS or not parts.hostname or port == -1 or parts.path not in ("", "/"):
        raise RefusedError(f"{origin} is not a usable proxy: write http://host:port or https://host:port")
    login = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    return Proxy(scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], login=login)


def _variable(environment: Mapping[str, str], name: str) -> str | None:
    return environment.get(name) or environment.get(name.upper())


def _host_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    return host.lower().rstrip(".") == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, port: int) -> bool:
    """`*`; an address or a network; `example.org` for itself and all below; `.example.org` and `*.example.org` for all
    below. A port may follow a name."""
    written = entry.lower()
    if written == "*":
        return True
    if (address := _address(host)) is not None:
        try:
            network = ip_network(written.strip("[]"), strict=False)
        except ValueError:
            return False
        return address.version == network.version and address in network
    name, _, only_port = written.partition(":")
    if only_port and only_port != str(port):
        return False
    below = name.removeprefix("*")
    if below.startswith("."):
        return host.endswith(below)
    return host == name or host.endswith(f".{name}")
