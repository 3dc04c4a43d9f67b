"""Requests of http tasks and for tokens through a proxy: which take it, and how the address policy holds."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from noetl.base.addresses.connections import GuardedBackend
from noetl.base.addresses.policy import OPEN, Address, AddressGuard, AddressPolicy, UnresolvedError
from noetl.base.addresses.proxies import OutboundProxies, outbound_proxies
from noetl.base.errors import RefusedError, ToolError
from noetl.secrets.token_requests import TokenRequests
from noetl.tools.contract import ToolResult
from tests.servers.certificates import make_certificates
from tests.servers.forward_proxy import ForwardProxy
from tests.servers.http import HttpServer, reply
from tests.tools.http_requesting import context, http_tool

PUBLIC, INTERNAL, UNKNOWN = "shop.example", "intranet.example", "nowhere.example"
HERE = {PUBLIC: "93.184.216.34", INTERNAL: "10.1.2.3"}


async def looked_up(host: str, port: int) -> Sequence[Address]:
    if host not in HERE:
        raise UnresolvedError("nobody knows it")
    return [ip_address(HERE[host])]


def guard(proxies: OutboundProxies, allow: tuple[str, ...] = ()) -> AddressGuard:
    return AddressGuard(AddressPolicy(allow=allow, proxies=proxies), resolve=looked_up)


async def sent(url: str, proxies: OutboundProxies, *, allow: tuple[str, ...] = (), **spec: object) -> ToolResult:
    judged = guard(proxies, allow)
    async with http_tool(judged.policy, backend=GuardedBackend(judged)) as tool:
        return await tool.run({"url": url}, context(spec))


def by(proxy: ForwardProxy, *no_proxy: str) -> OutboundProxies:
    return outbound_proxies(proxy.url, no_proxy, {})


async def test_a_request_takes_the_proxy_in_absolute_form() -> None:
    async with HttpServer({"/a": reply(json={"ok": 1})}) as there, ForwardProxy({f"{PUBLIC}:80": there.port}) as proxy:
        result = await sent(f"http://{PUBLIC}/a?b=1", by(proxy))

    assert result.result["data"] == {"ok": 1}
    assert proxy.asked == [f"GET http://{PUBLIC}/a?b=1 HTTP/1.1"]


async def test_https_is_tunnelled_and_the_proxy_sees_only_the_host(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with (
        HttpServer({"/secret": reply(json={"ok": 1})}, tls=tls) as there,
        ForwardProxy({f"{PUBLIC}:443": there.port}) as proxy,
    ):
        result = await sent(f"https://{PUBLIC}/secret", by(proxy), verify_ssl=False)

    assert result.result["data"] == {"ok": 1}
    assert proxy.asked == [f"CONNECT {PUBLIC}:443 HTTP/1.1"]


async def test_the_proxy_password_is_sent_to_the_proxy_only() -> None:
    login = "Basic " + base64.b64encode(b"ann:p@ss").decode()
    async with (
        HttpServer({"/a": reply(json={"ok": 1})}) as there,
        ForwardProxy({f"{PUBLIC}:80": there.port}, login=login) as proxy,
    ):
        proxies = outbound_proxies(proxy.url.replace("://", "://ann:p%40ss@"), (), {})
        result = await sent(f"http://{PUBLIC}/a", proxies)

    assert result.result["data"] == {"ok": 1}
    assert "p@ss" not in repr(proxies)


@pytest.mark.parametrize(
    ("host", "allow", "why"),
    [
        (INTERNAL, (), "it is at 10.1.2.3, a private address"),
        ("10.1.2.3", (), "10.1.2.3 is a private address"),
        ("169.254.169.254", ("169.254.169.254",), "a metadata address, which is never reached"),
        (UNKNOWN, (), "its address is not known here"),
    ],
)
async def test_the_address_policy_is_applied_before_the_proxy_is_contacted(
    host: str, allow: tuple[str, ...], why: str
) -> None:
    async with ForwardProxy({}) as proxy:
        with pytest.raises(ToolError, match=why) as caught:
            await sent(f"http://{host}/a", by(proxy), allow=allow)

    assert caught.value.details["code"] == "blocked"
    assert proxy.asked == []


@pytest.mark.parametrize("host", [INTERNAL, UNKNOWN])
async def test_an_allowed_host_is_reached_through_the_proxy(host: str) -> None:
    async with HttpServer({"/a": reply(json={"ok": 1})}) as there, ForwardProxy({f"{host}:80": there.port}) as proxy:
        result = await sent(f"http://{host}/a", by(proxy), allow=("*.example",))

    assert result.result["data"] == {"ok": 1}


async def test_a_redirect_is_checked_like_a_request() -> None:
    moved = reply(status=302, headers={"location": f"http://{INTERNAL}/b"})
    async with HttpServer({"/a": moved}) as there, ForwardProxy({f"{PUBLIC}:80": there.port}) as proxy:
        with pytest.raises(ToolError, match="a private address"):
            await sent(f"http://{PUBLIC}/a", by(proxy))

    assert len(proxy.asked) == 1


async def test_a_refusal_by_the_proxy_is_reported() -> None:
    async with ForwardProxy({}) as proxy:
        with pytest.raises(ToolError, match=r"the proxy refused it \(403 Forbidden\)") as caught:
            await sent(f"https://{PUBLIC}/a", by(proxy))

    assert (caught.value.kind, caught.value.retryable) == ("http.transport", False)
    assert caught.value.details["code"] == "proxy"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_localhost_is_reached_without_the_proxy(host: str) -> None:
    async with (
        HttpServer({"/a": reply(json={"ok": 1})}) as there,
        ForwardProxy({}) as proxy,
        http_tool(AddressPolicy(allow_private=True, proxies=by(proxy))) as tool,
    ):
        result = await tool.run({"url": f"http://{host}:{there.port}/a"}, context())

    assert result.result["data"] == {"ok": 1}
    assert proxy.asked == []


@pytest.mark.parametrize(
    ("entry", "host", "port", "direct"),
    [
        ("*", "a.example", 80, True),
        ("shop.example", "shop.example", 80, True),
        ("shop.example", "api.shop.example", 80, True),
        ("shop.example", "myshop.example", 80, False),
        (".shop.example", "api.shop.example", 80, True),
        (".shop.example", "shop.example", 80, False),
        ("*.shop.example", "api.shop.example", 80, True),
        ("SHOP.example", "Shop.Example.", 80, True),
        ("shop.example:8080", "shop.example", 8080, True),
        ("shop.example:8080", "shop.example", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.1.2.3", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "shop.example", 80, False),
        ("fd00::/8", "[fd00::1]", 80, True),
        ("shop.example", "10.1.2.3", 80, False),
    ],
)
def test_hosts_in_no_proxy_are_reached_directly(entry: str, host: str, port: int, direct: bool) -> None:
    proxies = outbound_proxies("proxy.example:3128", [entry], {})

    assert (proxies.proxy_for("http", host, port) is None) is direct


def test_the_setting_overrides_the_environment() -> None:
    environment = {"HTTP_PROXY": "one:1", "https_proxy": "http://two:2", "NO_PROXY": "a.example, b.example"}
    own = outbound_proxies(None, (), environment)
    chosen = outbound_proxies("three:3", ("c.example",), environment)

    assert [(p.host, p.port) for p in (own.http, own.https) if p is not None] == [("one", 1), ("two", 2)]
    assert own.exempt == ("a.example", "b.example")
    assert [p.host for p in (chosen.http, chosen.https) if p is not None] == ["three", "three"]
    assert chosen.exempt == ("c.example",)
    assert outbound_proxies(None, (), {"ALL_PROXY": "four"}).https == outbound_proxies("four", (), {}).https


@pytest.mark.parametrize("written", ["socks5://proxy:1080", "http://", "http://proxy:port", "http://ann:secret@/"])
def test_an_invalid_proxy_is_refused_without_its_password(written: str) -> None:
    with pytest.raises(RefusedError, match="write http://host:port or https://host:port") as caught:
        outbound_proxies(written, (), {})

    assert "secret" not in str(caught.value)


async def test_a_run_at_the_terminal_uses_the_configured_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with HttpServer({"/a": reply(json={"ok": 1})}) as there, ForwardProxy({f"{PUBLIC}:80": there.port}) as proxy:
        (tmp_path / "noetl.toml").write_text(f'proxy = "{proxy.url}"\n')
        judged = AddressGuard(OPEN, resolve=looked_up)
        async with http_tool(OPEN, backend=GuardedBackend(judged)) as tool:
            result = await tool.run({"url": f"http://{PUBLIC}/a"}, context())

    assert result.result["data"] == {"ok": 1}
    assert len(proxy.asked) == 1


async def test_a_token_request_is_tunnelled_under_the_same_policy() -> None:
    async with ForwardProxy({}) as proxy:
        ask = TokenRequests(guard(by(proxy)))
        with pytest.raises(Exception, match=r"the proxy refused it \(403 Forbidden\)"):
            await ask(f"https://{PUBLIC}/token", {"a": "b"}, None)
        with pytest.raises(RefusedError, match="a private address"):
            await ask(f"https://{INTERNAL}/token", {"a": "b"}, None)
        with pytest.raises(RefusedError, match="unencrypted"):
            await ask(f"http://{PUBLIC}/token", {"a": "b"}, None)

    assert proxy.asked == [f"CONNECT {PUBLIC}:443 HTTP/1.1"]
