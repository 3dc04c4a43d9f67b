"""The HTTP API of a container service: address, authentication, requests and streams, and its errors as ours.

Plain HTTP with the HTTP client of the project: the SDKs of Docker and Kubernetes have connection pools of their own,
which the address policy would not cover.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpcore2
import msgspec

from noetl.base.addresses.connections import GuardedBackend, connection_pool
from noetl.base.addresses.policy import BlockedError
from noetl.base.errors import ToolError
from noetl.base.tls_trust import tls_context
from noetl.tools.contract import ToolContext
from noetl.tools.input_shapes import UNRESOLVED, connection_fields

LARGEST_ANSWER = 8 << 20  # bytes of one answer that is not a stream
_CONNECT_S = 30.0
_ANSWER_S = 300.0  # between two parts of an answer
# The default sockets of container engines; the first that exists is used.
LOCAL_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock", "{XDG_RUNTIME_DIR}/podman/podman.sock")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect to a container service. Its `repr` shows no secrets."""

    address: str  # http://host:port, https://host:port or unix:///path
    kubernetes: bool = False
    token: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    namespace: str = "default"
    registry_login: tuple[str, str, str] | None = None  # user, password, registry

    def __str__(self) -> str:
        return self.address

    __repr__ = __str__

    @property
    def socket(self) -> str | None:
        return self.address.removeprefix("unix://") if self.address.startswith("unix://") else None


def service_of(auth: Any, context: ToolContext) -> Service:
    """The service of a credential; a socket of this machine where there is none. `server` is the API server of a
    Kubernetes cluster, `url` a container engine. ToolError `keychain.unresolved` says what is missing."""
    if auth is None or auth == "":
        return Service(address=f"unix://{_local_socket()}")
    given = connection_fields(auth, context, kind="container", address="url")
    field = {name: str(value) for name, value in given.items() if isinstance(value, str | int) and value != ""}
    written = field.get("server") or field.get("url") or ""
    login = (field.get("registry_user", ""), field.get("registry_password", ""), field.get("registry", ""))
    return Service(
        address=_address(written, has_tls=bool(field.get("ca") or field.get("cert"))),
        kubernetes="server" in field,
        token=field.get("token", ""),
        ca=field.get("ca", ""),
        certificate=field.get("cert", ""),
        key=field.get("key", ""),
        namespace=field.get("namespace", "default"),
        registry_login=login if login[0] else None,
    )


def _local_socket() -> str:
    places = [place.format(XDG_RUNTIME_DIR=os.environ.get("XDG_RUNTIME_DIR", "")) for place in LOCAL_SOCKETS]
    return next((place for place in places if os.path.exists(place)), places[0])


def _address(written: str, *, has_tls: bool) -> str:
    parts = urlsplit(written)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme == "unix" and parts.path.startswith("/"):
        return f"unix://{parts.path}"
    if parts.scheme not in ("tcp", "http", "https") or not parts.hostname or port == -1:
        raise ToolError(
            UNRESOLVED,
            '"auth" does not say where containers run: "url" is unix:///run/podman/podman.sock, tcp://host:2375 or '
            'https://host:2376; for Kubernetes "server" is https://host:6443',
        )
    scheme = "https" if parts.scheme == "https" or has_tls else "http"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{port or {'https': 443, 'http': 80}[scheme]}"


class ServiceApi:
    """Requests to one service, for as long as one task lasts."""

    def __init__(self, service: Service, pool: httpcore2.AsyncConnectionPool, context: ToolContext) -> None:
        self.service, self._pool, self._context = service, pool, context
        self._base = "http://localhost" if service.socket else service.address

    async def call(
        self, method: str, path: str, body: Any = None, /, *, fine: tuple[int, ...] = (), **query: Any
    ) -> tuple[int, Any]:
        """The status, and the answer as JSON. ToolError of a status of 400 or more that is not in `fine`."""
        async with self._opened(method, path, body, query) as response:
            content = bytearray()
            async for part in response.aiter_stream():
                content += part
                if len(content) > LARGEST_ANSWER:
                    raise self.error(f"answered {method} {path} with more than {LARGEST_ANSWER >> 20} MiB")
        answer = _decoded(bytes(content))
        if response.status >= 400 and response.status not in fine:
            raise self._refused(response.status, answer)
        return response.status, answer

    async def answer(self, method: str, path: str, body: Any = None, /, **query: Any) -> dict[str, Any]:
        """The answer, which must be an object."""
        _, answer = await self.call(method, path, body, **query)
        if not isinstance(answer, dict):
            raise self.error(f"answered {method} {path} with something that is no JSON object")
        return answer

    async def stream(self, method: str, path: str, body: Any = None, /, **query: Any) -> AsyncIterator[bytes]:
        """The answer as it comes."""
        async with self._opened(method, path, body, query, endless=True) as response:
            parts = response.aiter_stream()
            if response.status >= 400:
                content = b""
                async for part in parts:
                    content = (content + part)[:LARGEST_ANSWER]
                raise self._refused(response.status, _decoded(content))
            async for part in parts:
                yield part

    @asynccontextmanager
    async def _opened(
        self, method: str, path: str, body: Any, query: Mapping[str, Any], *, endless: bool = False
    ) -> AsyncIterator[httpcore2.Response]:
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        headers: dict[bytes | str, bytes | str] = {"Host": urlsplit(self._base).netloc, "Accept": "application/json"}
        if self.service.token:
            headers["Authorization"] = f"Bearer {self.service.token}"
        # The login is only sent with a pull: no other request needs it.
        if path.endswith("/images/create") and self.service.registry_login is not None:
            headers["X-Registry-Auth"] = _registry_login(self.service.registry_login)
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        # Reading a log, or waiting for the end of a container, may take as long as the task: only the time limit of the
        # task ends it.
        limits = {"connect": _CONNECT_S, "read": None if endless else _ANSWER_S, "write": _ANSWER_S, "pool": None}
        try:
            async with self._pool.stream(
                method,
                f"{self._base}{path}{'?' if asked else ''}{asked}",
                headers=headers,
                content=content,
                extensions={"timeout": limits},
            ) as response:
                yield response
        except BlockedError as problem:
            raise BlockedError(f"{self.service} is blocked: {problem.message}") from None
        except (
            *(httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException),
            *(httpcore2.UnsupportedProtocol, ssl.SSLError, OSError),
        ) as problem:
            raise self.error(f"was lost: {str(problem) or type(problem).__name__}", code="connection") from None

    def error(self, what: str, *, code: str = "answer") -> ToolError:
        """The error of an unexpected answer of the service; another try may succeed."""
        return ToolError("container.error", f"{self.service} {self.readable_text(what)}", retryable=True, code=code)

    def readable_text(self, text: str) -> str:
        """The message of the service for an error: masked before it is cut, without control characters."""
        return "".join(sign if sign.isprintable() else " " for sign in self._context.mask(text))[:500]

    def _refused(self, status: int, answer: Any) -> ToolError:
        message = answer.get("message") if isinstance(answer, dict) else None
        reason = answer.get("reason") if isinstance(answer, dict) else None
        kind = "container.denied" if status in (401, 403) else "container.error"
        why = self.readable_text(str(message or "it said nothing that can be read"))
        return ToolError(
            kind,
            f"{self.service} answered {status}: {why}",
            retryable=status == 429 or status >= 500,
            status=status,
            code=self.readable_text(str(reason or status)),
        )


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content) if content.strip() else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _registry_login(login: tuple[str, str, str]) -> str:
    import base64

    fields = dict(zip(("username", "password", "serveraddress"), login, strict=True))
    return base64.urlsafe_b64encode(msgspec.json.encode(fields)).decode()


@asynccontextmanager
async def service_api(service: Service, context: ToolContext) -> AsyncIterator[ServiceApi]:
    """The API of a service, if the address policy allows its address."""
    if service.socket is not None:
        context.addresses.allow_socket("the container engine", service.socket)
        pool = httpcore2.AsyncConnectionPool(uds=service.socket)
    else:
        tls = _tls(service) if service.address.startswith("https") else None
        pool = connection_pool(GuardedBackend(context.addresses), None, tls=tls)
    async with pool:
        yield ServiceApi(service, pool, context)


def _tls(service: Service) -> ssl.SSLContext:
    context = tls_context(service.ca)
    if not service.certificate:
        return context
    # The standard library takes a client's certificate from a file only: a private one, deleted at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{service.certificate}\n{service.key}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError):
            raise ToolError(UNRESOLVED, 'the credential\'s "cert" and "key" are no pair in PEM') from None
    return context
