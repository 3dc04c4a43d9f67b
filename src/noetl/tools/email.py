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
from aiosmtplib.email import extract_sender, flatten_message

from noetl.base.errors import ToolError
from noetl.base.tls_trust import is_distrust, tls_context
from noetl.tools.contents import encode
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import UNRESOLVED, connection_fields

_PORTS = {"tls": 465, "starttls": 587, "none": 25}
_DEFAULT_TIMEOUT_S = 60.0
MAX_BYTES = 25 << 20  # the limit of most servers
# Characters of headers. The library parses and folds them in time that grows with the square of some of them: 20,000
# letters in one name took half a minute.
MAX_TEXT, MAX_NAME, MAX_HEADERS = 10_000, 500, 50_000
INPUT = "email.input"
_PARSE_HEADER: Any = HeaderRegistry()
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,75}\Z")
_OWN_HEADERS = frozenset({"to", "cc", "bcc", "from", "reply-to", "subject", "date", "message-id", "mime-version"})


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """The server that receives messages. `tls`: from the start (tls), after the greeting (starttls), or none."""

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


class EmailTool(Tool):
    """The tool of the kind `email`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        server = server_of(inputs.get("auth"), context)
        # In a thread, here and in `deliver`: hostile input can take the library seconds to parse or fold.
        sender = str(inputs.get("from") or server.sender)
        message, recipients = await asyncio.to_thread(message_of, inputs, sender, context)
        client = await open_session(server, context)
        try:
            refused, response = await client.deliver(message, recipients)
            with suppress(aiosmtplib.SMTPException, OSError):  # the message is accepted, however the session ends
                await client.quit()
        except (aiosmtplib.SMTPException, OSError) as problem:
            raise _failure(problem, server) from None
        finally:
            client.close()
        result = {
            "message_id": str(message["Message-ID"]),
            "accepted": [address for address in recipients if address not in refused],
            "refused": [{"address": to, "code": why.code, "message": why.message[:200]} for to, why in refused.items()],
            "response": response[:200],
        }
        return ToolResult(result=result)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by a login. Nothing is sent."""
        server = server_of(inputs.get("auth"), context)
        client = await open_session(server, context)
        client.close()
        return f"logged in to {server}" if server.user else f"connected to {server}"


def server_of(auth: Any, context: ToolContext) -> MailServer:
    """The server of a credential. Raises ToolError `keychain.unresolved`, which names what is missing."""
    fields = connection_fields(auth, context, kind="email", address="host")
    host = str(fields.get("host") or fields.get("server") or "")
    if not host:
        raise ToolError(UNRESOLVED, '"auth" does not say which mail server: it needs a host')
    tls = str(fields.get("tls") or fields.get("security") or "").lower()
    port = fields.get("port")
    # Never unencrypted by default: the port 465 has TLS from the beginning, the others upgrade to it.
    if not tls:
        tls = "tls" if str(port) == "465" else "starttls"
    if tls in ("false", "off", "plain"):
        tls = "none"
    if tls not in _PORTS or (port is not None and not str(port).isdecimal()):
        raise ToolError(UNRESOLVED, 'the credential\'s "tls" is tls, starttls or none, and its "port" a number')
    user = str(fields.get("user") or fields.get("username") or "")
    return MailServer(
        host=host,
        port=int(port or _PORTS[tls]),
        tls=tls,
        user=user,
        password=str(fields.get("password") or ""),
        sender=str(fields.get("from") or fields.get("sender") or (user if "@" in user else "")),
        ca=str(fields.get("ca") or ""),
    )


class _Session(aiosmtplib.SMTP):
    """A session whose `close` aborts the connection, also when the library calls it. An orderly TLS shutdown waits for
    the other side, up to half a minute."""

    def close(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()
        super().close()

    async def deliver(self, message: EmailMessage, recipients: list[str]) -> tuple[dict[str, Any], str]:
        """Send a message with `send_message` of the library, which writes the message in the event loop."""
        await self._ehlo_or_helo_if_needed()
        sender = extract_sender(message) or ""
        is_utf8 = not "".join((sender, *recipients)).isascii()
        if is_utf8 and not self.supports_extension("smtputf8"):
            raise aiosmtplib.SMTPNotSupported("it takes no addresses with other letters than those of ASCII (SMTPUTF8)")
        form = "8bit" if self.supports_extension("8bitmime") else "7bit"
        body = await asyncio.to_thread(flatten_message, message, utf8=is_utf8, cte_type=form)
        options = [*(["SMTPUTF8"] if is_utf8 else []), *(["BODY=8BITMIME"] if form == "8bit" else [])]
        return await self.sendmail(sender, recipients, body, mail_options=options)


async def open_session(server: MailServer, context: ToolContext) -> _Session:
    """A session, logged in. Its socket is connected to an address that the guard allowed; TLS checks the host name."""
    address = await context.addresses.address(f"the mail server {server}", server.host, server.port)
    loop = asyncio.get_running_loop()
    # A socket of ours, connected to the address that was judged: the library would resolve the name again.
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
    """The error with the code and message of the server. 4xx is temporary, 5xx is not (RFC 5321 §4.2.1)."""
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
            '(often port 465), or "tls": "none" if messages may travel unencrypted'
        )
    if is_distrust(problem):  # retryable: the certificate may have been renewed by then
        why = (
            "its certificate is not trusted here: put the authority that signed it into the credential as "
            f'"ca", in PEM, if it is your own ({why[:100]})'
        )
    return ToolError("email.error", f"the mail server {server}: {why[:300]}", retryable=retryable, code="connection")


def _refusal(kind: str, code: int, message: str, server: MailServer) -> ToolError:
    text = "".join(char if char.isprintable() else " " for char in message)[:200]
    return ToolError(
        kind, f"the mail server {server} answered {code}: {text}", retryable=400 <= code < 500, code=str(code)
    )


# Messages: the inputs of a task as an e-mail.


def message_of(inputs: Mapping[str, Any], sender: str, context: ToolContext) -> tuple[EmailMessage, list[str]]:
    """The message and its recipients. Raises ToolError `email.input` for inputs that do not fit.

    Its Message-ID is the same for every attempt of a task, so that mailboxes and lists recognise a repeated message.
    """
    _check_lengths(inputs, sender)
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
        message["Message-ID"] = f"<{hashlib.sha256(context.task_run.idempotency_key.encode()).hexdigest()[:40]}@noetl>"
        _add_headers(message, inputs.get("headers"))
    except ValueError as problem:  # the library refuses line breaks, which would start another header
        raise ToolError(INPUT, f"a header cannot be written: {problem}") from None
    _add_contents(message, inputs, context)
    # `bcc` is among the recipients and in no header.
    recipient_addresses = [address.addr_spec for each in recipients.values() for address in each]
    if not recipient_addresses:
        raise ToolError(INPUT, 'there is no recipient: write "to"')
    return message, list(dict.fromkeys(recipient_addresses))


def _check_lengths(inputs: Mapping[str, Any], sender: str) -> None:
    """Check the lengths of addresses, subject and headers before any of them is parsed."""
    headers = inputs.get("headers")
    written = [sender, *(inputs.get(name) for name in ("to", "cc", "bcc", "reply_to", "subject"))]
    written += [part for pair in headers.items() for part in pair] if isinstance(headers, Mapping) else []
    lengths = [len(str(text)) for one in written for text in (one if isinstance(one, list) else [one])]
    if max(lengths) > MAX_TEXT or sum(lengths) > MAX_HEADERS:
        message = f"a header has at most {MAX_TEXT:,} characters, and all of a message {MAX_HEADERS:,}"
        raise ToolError(INPUT, f"{message}: send it to a list, or in several messages")


def addresses_in(written: Any, name: str) -> list[Address]:
    """Addresses in a text or a list of texts, with or without names."""
    if written in (None, "", []):
        return []
    texts = [str(text) for text in written] if isinstance(written, list) else [str(written)]
    parsed: list[Address] = []
    for text in texts:
        try:
            addresses = () if _CONTROL.search(text) else _PARSE_HEADER("to", text).addresses
        # The exceptions of the library's parser for invalid text.
        except (AttributeError, IndexError, RecursionError, ValueError):
            addresses = ()
        if not addresses or not all(address.username and address.domain for address in addresses):
            raise ToolError(INPUT, f'"{name}" holds no e-mail address: write name@example.com')
        if any(len(address.display_name) > MAX_NAME for address in addresses):
            raise ToolError(INPUT, f'"{name}" has a name of more than {MAX_NAME} characters')
        parsed += addresses
    return parsed


def _add_headers(message: EmailMessage, written: Any) -> None:
    if written is None:
        return
    if not isinstance(written, Mapping):
        raise ToolError(INPUT, "headers must be a mapping of name to value")
    for name, value in written.items():
        if not _HEADER.match(str(name)) or str(name).lower() in _OWN_HEADERS:
            raise ToolError(INPUT, f'"{str(name)[:80]}" cannot be set as a header')
        message[str(name)] = str(value)


def _add_contents(message: EmailMessage, inputs: Mapping[str, Any], context: ToolContext) -> None:
    text, html = inputs.get("text"), inputs.get("html")
    if text is None and html is None:
        raise ToolError(INPUT, 'there is nothing to send: write "text" or "html"')
    if text is not None:
        # Base64, since not every server accepts eight-bit text.
        message.set_content(str(text), cte="base64" if not str(text).isascii() else None)
    if html is not None:
        (message.add_alternative if text is not None else message.set_content)(str(html), subtype="html")
    bytes_left = MAX_BYTES - len(str(text or "")) - len(str(html or ""))
    for attachment in inputs.get("attachments") or []:
        name, body, media_type = _attachment(attachment, bytes_left, context)
        bytes_left -= len(body)
        main, _, sub = media_type.partition("/")
        message.add_attachment(body, maintype=main, subtype=sub, filename=name)
    if bytes_left < 0:
        raise _size_error()


def _attachment(written: Any, bytes_left: int, context: ToolContext) -> tuple[str, bytes, str]:
    if not isinstance(written, Mapping) or ("data" in written) == ("file" in written):
        raise ToolError(INPUT, "an attachment is {name, data} or {file}")
    name = str(written.get("name") or Path(str(written.get("file", ""))).name)
    if not name or len(name) > MAX_NAME or any(ord(char) < 32 for char in name):
        raise ToolError(INPUT, f"an attachment needs a name, of at most {MAX_NAME} characters")
    if "file" in written:
        body = _file(str(written["file"]), bytes_left, context)
    else:
        body = encode(written["data"], written.get("format"), kind="email")
    if len(body) > bytes_left:
        raise _size_error()
    media_type = str(written.get("media_type") or mimetypes.guess_type(name)[0] or "application/octet-stream")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", media_type):
        raise ToolError(INPUT, f'"{media_type[:80]}" is not a media type: write text/csv')
    return name, body, media_type


def _file(path: str, bytes_left: int, context: ToolContext) -> bytes:
    place = Path(allowed_path(path, context.permissions.data_folders, kind=INPUT))
    try:
        if not place.is_file():
            raise ToolError(INPUT, f'"{path}" is not a file')
        with place.open("rb") as file:
            # One byte more than allowed, to notice that it is too large.
            return file.read(max(bytes_left, 0) + 1)
    except OSError as problem:
        raise ToolError(INPUT, f'"{path}" cannot be read: {problem.strerror}') from None


def _size_error() -> ToolError:
    return ToolError(INPUT, f"the message is larger than {MAX_BYTES >> 20} MiB: store the file, and send its URL")
