"""The guard: no request reaches an address it may not, however the address is written (reliability.md §2.5, F15).

Connections are recorded below the guard, where a socket would be opened: what is not recorded was not reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.policy import (
    CLOSED,
    OPEN,
    Address,
    AddressGuard,
    AddressPolicy,
    BlockedError,
    embedded_ipv4,
    resolved,
)
from noetl.base.errors import ToolError
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, http_tool

METADATA = ("169.254.169.254", "169.254.170.2", "192.0.0.192", "168.63.129.16", "100.100.100.200")
PRIVATE = (
    "127.0.0.1",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
)
PUBLIC = ("93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1")


def spelled_4(text: str) -> Iterator[str]:
    """An IPv4 address as resolvers accept it: one to four parts, each in any radix."""
    number, (a, b, c, d) = int(IPv4Address(text)), IPv4Address(text).packed
    yield text
    yield f"{text}."
    yield from (str(number), hex(number), f"0{number:o}", f"0X{number:X}")
    yield from (f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", f"0x{a:x}.{number & 0xFFFFFF}")
    yield from (f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}", f"{a}.0x{b:x}.0{c:o}.{d}")


def spelled_6(text: str) -> Iterator[str]:
    """IPv6 addresses that carry an IPv4 one."""
    number = int(IPv4Address(text))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    yield from (f"::ffff:{text}", f"::ffff:{high}:{low}", f"0:0:0:0:0:FFFF:{high}:{low}")
    yield from (f"::{text}", f"::ffff:0:{high}:{low}", f"64:ff9b::{high}:{low}", f"64:ff9b::{text}")
    yield from (f"2002:{high}:{low}::1", f"2001:0:{high}:{low}::1", f"2001:db8::5efe:{text}", f"fe80::200:5efe:{text}")
    yield f"2001:0:808:808:0:0:{number >> 16 ^ 0xFFFF:x}:{number & 0xFFFF ^ 0xFFFF:x}"
    yield f"64:ff9b:1::{high}:{low}"
    yield str(IPv6Address(int(IPv6Address("64:ff9b:1::")) | (number >> 16) << 64 | (number & 0xFFFF) << 40))


NATIVE_6 = (
    *("::1", "::", "fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe", "fc00::1", "fd12:3456::1", "fe80::1", "fec0::1"),
    *("ff02::1", "100::1", "2001:db8::1", "3fff::1", "5f00::1", "2001:10::1", "64:ff9b:1::1"),
)
SPELLINGS = [*(host for text in METADATA + PRIVATE for host in (*spelled_4(text), *spelled_6(text))), *NATIVE_6]
METADATA_SPELLINGS = [host for text in METADATA for host in (*spelled_4(text), *spelled_6(text))]


class Recorder(AsyncNetworkBackend):
    """Where sockets would be opened: keeps the addresses, opens nothing."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> AsyncNetworkStream:
        self.reached.append(host)
        raise ConnectError("a recorder has no connections")


class Names:
    """A resolver that answers by a script; the last answer stays."""

    def __init__(self, answers: Mapping[str, Iterable[list[str]]]) -> None:
        self._answers = {host: list(found) for host, found in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        answers = self._answers[host]
        return [ip_address(text) for text in (answers.pop(0) if len(answers) > 1 else answers[0])]


async def reached(backend: GuardedBackend, recorder: Recorder, host: str) -> bool:
    """Whether a connection to `host` got past the guard."""
    recorder.reached.clear()
    with pytest.raises((BlockedError, ConnectError)):
        await backend.connect_tcp(host, 80, timeout=60)
    return bool(recorder.reached)


def url_of(host: str) -> str:
    return f"http://[{host}]/x" if ":" in host else f"http://{host}/x"


def test_there_are_more_than_150_address_spellings() -> None:
    assert len(set(SPELLINGS)) > 300


async def test_no_spelling_of_a_blocked_address_is_reached() -> None:
    recorder = Recorder()
    backend = GuardedBackend(AddressGuard(CLOSED), inner=recorder)

    assert [host for host in SPELLINGS if await reached(backend, recorder, host)] == []


async def test_metadata_addresses_are_blocked_even_if_private_ones_are_allowed() -> None:
    """In an embedded run too, and whatever an allow list says."""
    recorder = Recorder()
    for policy in (OPEN, AddressPolicy(allow=("0.0.0.0/0", "::/0", *METADATA_SPELLINGS))):
        backend = GuardedBackend(AddressGuard(policy), inner=recorder)
        assert [host for host in METADATA_SPELLINGS if await reached(backend, recorder, host)] == []


async def test_a_whole_request_reaches_no_blocked_address() -> None:
    """From the URL down: what the URL parser makes of a spelling is guarded as well."""
    recorder = Recorder()
    async with http_tool(backend=GuardedBackend(AddressGuard(CLOSED), inner=recorder)) as tool:
        for host in SPELLINGS:
            with pytest.raises(ToolError) as caught:
                await tool.run({"url": url_of(host)}, context())
            assert caught.value.kind == "http.transport"
            assert caught.value.details["code"] in ("blocked", "request")

    assert recorder.reached == []


async def test_a_redirect_reaches_no_blocked_address() -> None:
    """The first server is allowed by name; where it points is not."""
    recorder = Recorder()
    names = Names({"front.example": [["127.0.0.1"]]})

    class OnlyTheFront(Recorder):
        async def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> AsyncNetworkStream:
            if port != server.port:
                return await recorder.connect_tcp(host, port)
            return await AnyIOBackend().connect_tcp(host, port, *more, **options)

    async def resolve(host: str, port: int) -> Any:
        return await (names(host, port) if host == "front.example" else resolved(host, port))

    hosts = SPELLINGS[::3]
    async with HttpServer(
        {"/a": [reply(302, headers={"Location": url_of(host)}) for host in hosts]},
    ) as server:
        policy = AddressPolicy(allow=("front.example",))
        backend = GuardedBackend(AddressGuard(policy, resolve=resolve), inner=OnlyTheFront())
        async with http_tool(backend=backend) as tool:
            for _ in hosts:
                with pytest.raises(ToolError) as caught:
                    await tool.run({"url": f"http://front.example:{server.port}/a"}, context())
                assert caught.value.details["code"] in ("blocked", "request")

    assert len(server.requests) == len(hosts)
    assert recorder.reached == []


@pytest.mark.parametrize("address", [*METADATA, *PRIVATE, *NATIVE_6])
async def test_a_name_is_blocked_if_any_of_its_addresses_is(address: str) -> None:
    """Mixed answers, and names that have nothing but IPv6: one closed address closes the name."""
    recorder = Recorder()
    names = Names({"only.example": [[address]], "mixed.example": [["8.8.8.8", address]]})
    backend = GuardedBackend(AddressGuard(CLOSED, resolve=names), inner=recorder)

    assert not await reached(backend, recorder, "only.example")
    assert not await reached(backend, recorder, "mixed.example")


async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A name that changes between check and use (DNS rebinding) changes nothing."""
    recorder = Recorder()
    names = Names({"fickle.example": [["8.8.8.8"], ["169.254.169.254"]]})
    backend = GuardedBackend(AddressGuard(CLOSED, resolve=names), inner=recorder)

    with pytest.raises(ConnectError):
        await backend.connect_tcp("fickle.example", 80)
    assert (recorder.reached, names.asked) == (["8.8.8.8"], ["fickle.example"])

    with pytest.raises(BlockedError):
        await backend.connect_tcp("fickle.example", 80)
    assert recorder.reached == ["8.8.8.8"]


async def test_public_addresses_are_reached() -> None:
    recorder = Recorder()
    backend = GuardedBackend(AddressGuard(CLOSED), inner=recorder)

    assert [address for address in PUBLIC if not await reached(backend, recorder, address)] == []


async def test_private_addresses_are_allowed_in_an_embedded_run() -> None:
    recorder = Recorder()
    backend = GuardedBackend(AddressGuard(OPEN), inner=recorder)

    assert [address for address in (*PRIVATE, "::1") if not await reached(backend, recorder, address)] == []


@pytest.mark.parametrize(
    ("allow", "host", "address", "open_to_it"),
    [
        (("10.1.0.0/16",), "h", "10.1.2.3", True),
        (("10.1.0.0/16",), "h", "10.2.2.3", False),
        (("10.1.2.3",), "h", "::ffff:10.1.2.3", True),
        (("fd00:1::/32",), "h", "fd00:1::5", True),
        (("api.internal",), "api.internal", "10.2.2.3", True),
        (("API.internal.",), "api.internal.", "10.2.2.3", True),
        (("api.internal",), "db.internal", "10.2.2.3", False),
        (("*.internal",), "db.internal", "10.2.2.3", True),
        (("*.internal",), "evilinternal", "10.2.2.3", False),
        (("api.internal",), "api.internal", "169.254.169.254", False),
        ((), "h", "8.8.8.8", True),
    ],
)
def test_an_operator_allows_networks_and_names(
    allow: tuple[str, ...], host: str, address: str, open_to_it: bool
) -> None:
    policy = AddressPolicy(allow=allow)

    assert (policy.refusal(host, ip_address(address)) is None) is open_to_it


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("::ffff:1.2.3.4", {"1.2.3.4"}),
        ("64:ff9b::1.2.3.4", {"1.2.3.4"}),
        ("2002:102:304::", {"1.2.3.4"}),
        ("64:ff9b:1:102:3:400::", {"1.2.3.4", "2.3.4.0", "3.4.0.0", "0.0.0.0"}),
        ("2606:2800::1", set()),
        ("1.2.3.4", set()),
    ],
)
def test_embedded_ipv4_addresses_are_found(address: str, inside: set[str]) -> None:
    assert {str(one) for one in embedded_ipv4(ip_address(address))} == inside


async def test_a_blocked_request_names_the_address_and_the_setting() -> None:
    async with http_tool(CLOSED) as tool:
        with pytest.raises(ToolError) as caught:
            await tool.run({"url": "http://127.1:8080/x"}, context())

    assert caught.value.message == (
        "GET http://127.1:8080/x is blocked: it is at 127.0.0.1, a private address, which is closed;"
        " --allow-address 127.0.0.1 of the worker or server that tries it allows it"
    )
    assert not caught.value.retryable


async def test_the_next_address_is_tried_if_one_does_not_answer() -> None:
    recorder = Recorder()
    names = Names({"two.example": [["2606:2800::1", "8.8.8.8"]]})
    backend = GuardedBackend(AddressGuard(CLOSED, resolve=names), inner=recorder)

    with pytest.raises(ConnectError):
        await backend.connect_tcp("two.example", 80)

    assert recorder.reached == ["2606:2800::1", "8.8.8.8"]


async def test_the_name_stays_in_the_host_header() -> None:
    backend = GuardedBackend(AddressGuard(OPEN, resolve=Names({"api.example": [["127.0.0.1"]]})))
    async with HttpServer({"/a": reply(json=1)}) as server, http_tool(backend=backend) as tool:
        await tool.run({"url": f"http://api.example:{server.port}/a"}, context())

    assert server.requests[0].headers["host"] == f"api.example:{server.port}"
