"""Messages: the inputs of a task as an e-mail."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Mapping
from email.headerregistry import Address, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.contents import encoded
from noetl.tools.contract import ToolContext
from noetl.tools.files import allowed_path

MAX_BYTES = 25 << 20  # what most servers accept
INPUT = "email.input"
_READ: Any = HeaderRegistry()
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,75}\Z")
_OURS = frozenset({"to", "cc", "bcc", "from", "reply-to", "subject", "date", "message-id", "mime-version"})


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
