"""`email`: sends one message by SMTP (RFC 5321), over TLS unless the credential says otherwise."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiosmtplib
import msgspec

from noetl.base.errors import ToolError
from noetl.base.tls_trust import is_distrust, tls_context
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.email.messages import message_of

_PORTS = {"tls": 465, "starttls": 587, "none": 25}
_DEFAULT_TIMEOUT_S = 60.0


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages are handed in. `tls`: from the beginning (tls), after a greeting (starttls), or not at all."""

    host: str
    port: int
    tls: str
    user: str = ""
    password: str = ""
    sender: str = ""
    ca: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    __repr__ = __str__


class EmailTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        server = server_of(inputs.get("auth"), context)
        message, recipients = message_of(inputs, str(inputs.get("from") or server.sender), context)
        client = await connected(server, context)
        try:
            refused, said = await client.send_message(message, recipients=recipients)
            with suppress(aiosmtplib.SMTPException, OSError):  # it is accepted; how the session ends is no matter
                await client.quit()
        except (aiosmtplib.SMTPException, OSError) as problem:
            raise _failure(problem, server) from None
        finally:
            client.close()
        result = {
            "message_id": str(message["Message-ID"]),
            "accepted": [one for one in recipients if one not in refused],
            "refused": [{"address": to, "code": why.code, "message": why.message[:200]} for to, why in refused.items()],
            "response": said[:200],
        }
        return ToolResult(result=result)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the server takes the credential. Nothing is sent."""
        server = server_of(inputs.get("auth"), context)
        client = await connected(server, context)
        client.close()
        return f"logged in to {server}" if server.user else f"connected to {server}"

    async def close(self) -> None:
        """Nothing is open between two messages."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def server_of(auth: Any, context: ToolContext) -> MailServer:
    """The server of a credential. ToolError `keychain.unresolved` says what is missing."""
    given = connection_fields(auth, context, kind="email", address="host")
    host = str(given.get("host") or given.get("server") or "")
    if not host:
        raise ToolError(UNRESOLVED, '"auth" does not say which mail server: it needs a host')
    tls = str(given.get("tls") or given.get("security") or "").lower()
    port = given.get("port")
    if not tls:
        tls = "tls" if str(port) == "465" else "starttls"
    if tls in ("false", "off", "plain"):
        tls = "none"
    if tls not in _PORTS or (port is not None and not str(port).isdecimal()):
        raise ToolError(UNRESOLVED, 'the credential\'s "tls" is tls, starttls or none, and its "port" a number')
    user = str(given.get("user") or given.get("username") or "")
    return MailServer(
        host=host,
        port=int(port or _PORTS[tls]),
        tls=tls,
        user=user,
        password=str(given.get("password") or ""),
        sender=str(given.get("from") or given.get("sender") or (user if "@" in user else "")),
        ca=str(given.get("ca") or ""),
    )


class _Session(aiosmtplib.SMTP):
    """One that ends at once, also where the library ends it: closing TLS politely would wait for the other side, with
    the connection open for half a minute."""

    def close(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        super().close()


async def connected(server: MailServer, context: ToolContext) -> aiosmtplib.SMTP:
    """A session that is logged in. Its socket was opened to an address that may be reached; TLS checks the name."""
    address = await context.addresses.address(f"the mail server {server}", server.host, server.port)
    loop = asyncio.get_running_loop()
    opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    opened.setblocking(False)
    client = _Session(
        hostname=server.host,
        sock=opened,
        use_tls=server.tls == "tls",
        start_tls=server.tls == "starttls",
        tls_context=tls_context(server.ca) if server.tls != "none" else None,
        timeout=_DEFAULT_TIMEOUT_S,
        local_hostname="noetl",
    )
    try:
        await loop.sock_connect(opened, (address, server.port))
        await client.connect()
        if server.user:
            await client.login(server.user, server.password)
    except (aiosmtplib.SMTPException, OSError) as problem:
        client.close()
        opened.close()
        raise _failure(problem, server) from None
    except BaseException:
        client.close()
        opened.close()
        raise
    return client


def _failure(problem: Exception, server: MailServer) -> ToolError:
    """The server's own code and words; 4xx is passing, 5xx is not (RFC 5321 §4.2.1)."""
    if isinstance(problem, aiosmtplib.SMTPRecipientsRefused):
        first = problem.recipients[0]
        return _refusal("email.error", first.code, first.message, server)
    if isinstance(problem, aiosmtplib.SMTPAuthenticationError):
        return _refusal("email.denied", problem.code, problem.message, server)
    if isinstance(problem, aiosmtplib.SMTPResponseException):
        return _refusal("email.error", problem.code, problem.message, server)
    why = str(problem) or type(problem).__name__
    retryable = not isinstance(problem, aiosmtplib.SMTPNotSupported)
    if "STARTTLS extension not supported" in why:  # the library has no class for it
        retryable = False
        why = (
            'it offers no STARTTLS: write "tls": "tls" into the credential if it speaks TLS from the beginning '
            '(often port 465), or "tls": "none" if messages may go over the line in the clear'
        )
    if is_distrust(problem):  # a later attempt may find it renewed
        why = (
            "its certificate is not trusted here: write the authority that made it into the credential as "
            f'"ca", in PEM, if it is your own ({why[:100]})'
        )
    return ToolError("email.error", f"the mail server {server}: {why[:300]}", retryable=retryable, code="connection")


def _refusal(kind: str, code: int, said: str, server: MailServer) -> ToolError:
    text = "".join(sign if sign.isprintable() else " " for sign in said)[:200]
    return ToolError(
        kind, f"the mail server {server} answered {code}: {text}", retryable=400 <= code < 500, code=str(code)
    )
