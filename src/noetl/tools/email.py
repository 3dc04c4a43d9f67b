"""`email`: sends one message by SMTP (RFC 5321), over TLS unless the credential says otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from email.headerregistry import Address, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Any

import aiosmtplib
import msgspec

from noetl.base.errors import ToolError
from noetl.base.tls_trust import is_distrust, tls_context
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contents import encoded
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.files import allowed_path

_PORTS = {"tls": 465, "starttls": 587, "none": 25}
_DEFAULT_TIMEOUT_S = 60.0
MAX_BYTES = 25 << 20  # what most servers accept
INPUT = "email.input"
_READ: Any = HeaderRegistry()
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,75}\Z")
_OURS = frozenset({"to", "cc", "bcc", "from", "reply-to", "subject", "date", "message-id", "mime-version"})


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


# Messages: the inputs of a task as an e-mail.


def message_of(inputs: Mapping[str, Any], sender: str, context: ToolContext) -> tuple[EmailMessage, list[str]]:
    """The message and everybody it goes to. ToolError `email.input` says what does not fit.

    Its Message-ID is the same for every attempt of one task: mailboxes and lists recognise a repeated message by it.
    """
    message = EmailMessage(policy=SMTP)
    recipients = {name: addresses_in(inputs.get(name), name) for name in ("to", "cc", "bcc")}
    author = next(iter(addresses_in(sender, "from")), None)
    if author is None:
        raise ToolError(INPUT, '"from" is missing, and the credential names no sender')
    try:
        message["From"] = author
        for name in ("to", "cc"):
            if recipients[name]:
                message[name.title()] = tuple(recipients[name])
        if answers := addresses_in(inputs.get("reply_to"), "reply_to"):
            message["Reply-To"] = tuple(answers)
        message["Subject"] = str(inputs.get("subject") or "")
        message["Date"] = formatdate(context.now())
        message["Message-ID"] = f"<{hashlib.sha256(context.idempotency_key.encode()).hexdigest()[:40]}@noetl>"
        _add_headers(message, inputs.get("headers"))
    except ValueError as problem:  # a line break in a header would begin another one
        raise ToolError(INPUT, f"a header cannot be written: {problem}") from None
    _add_contents(message, inputs, context)
    everybody = [address.addr_spec for each in recipients.values() for address in each]
    if not everybody:
        raise ToolError(INPUT, 'there is nobody to send it to: write "to"')
    return message, list(dict.fromkeys(everybody))


def addresses_in(written: Any, name: str) -> list[Address]:
    """Addresses in a text or a list of texts, with or without names."""
    if written in (None, "", []):
        return []
    texts = [str(one) for one in written] if isinstance(written, list) else [str(written)]
    found: list[Address] = []
    for text in texts:
        addresses = () if _CONTROL.search(text) else _READ("to", text).addresses
        if not addresses or not all(one.username and one.domain for one in addresses):
            raise ToolError(INPUT, f'"{name}" holds no e-mail address: write name@example.com')
        found += addresses
    return found


def _add_headers(message: EmailMessage, written: Any) -> None:
    if written is None:
        return
    if not isinstance(written, Mapping):
        raise ToolError(INPUT, "headers must be a mapping of name to value")
    for name, value in written.items():
        if not _HEADER.match(str(name)) or str(name).lower() in _OURS:
            raise ToolError(INPUT, f'"{str(name)[:80]}" cannot be set as a header')
        message[str(name)] = str(value)


def _add_contents(message: EmailMessage, inputs: Mapping[str, Any], context: ToolContext) -> None:
    text, html = inputs.get("text"), inputs.get("html")
    if text is None and html is None:
        raise ToolError(INPUT, 'there is nothing to send: write "text" or "html"')
    if text is not None:
        message.set_content(str(text), cte="base64" if not str(text).isascii() else None)
    if html is not None:
        (message.add_alternative if text is not None else message.set_content)(str(html), subtype="html")
    left = MAX_BYTES - len(str(text or "")) - len(str(html or ""))
    for attachment in inputs.get("attachments") or []:
        name, body, media_type = _attachment(attachment, left, context)
        left -= len(body)
        main, _, sub = media_type.partition("/")
        message.add_attachment(body, maintype=main, subtype=sub, filename=name)
    if left < 0:
        raise _too_large()


def _attachment(written: Any, left: int, context: ToolContext) -> tuple[str, bytes, str]:
    if not isinstance(written, Mapping) or ("data" in written) == ("file" in written):
        raise ToolError(INPUT, "an attachment is {name, data} or {file}")
    name = str(written.get("name") or Path(str(written.get("file", ""))).name)
    if not name or any(ord(sign) < 32 for sign in name):
        raise ToolError(INPUT, "an attachment needs a name")
    if "file" in written:
        body = _file(str(written["file"]), left, context)
    else:
        body = encoded(written["data"], written.get("format"), kind="email")
    if len(body) > left:
        raise _too_large()
    media_type = str(written.get("media_type") or mimetypes.guess_type(name)[0] or "application/octet-stream")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", media_type):
        raise ToolError(INPUT, f'"{media_type[:80]}" is no media type: write text/csv')
    return name, body, media_type


def _file(path: str, left: int, context: ToolContext) -> bytes:
    place = Path(allowed_path(path, context.data_folders, kind=INPUT))
    try:
        if not place.is_file():
            raise ToolError(INPUT, f'"{path}" is no file')
        with place.open("rb") as file:
            return file.read(max(left, 0) + 1)
    except OSError as problem:
        raise ToolError(INPUT, f'"{path}" cannot be read: {problem.strerror}') from None


def _too_large() -> ToolError:
    return ToolError(INPUT, f"the message is larger than {MAX_BYTES >> 20} MiB: store the file, and send its URL")
