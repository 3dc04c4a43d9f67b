"""Destinations: a message handed to the tool that knows the way there, under the rules that tools have.

`email`, `slack` and `teams` are the tools of these names, a webhook is a POST of the `http` tool. So addresses that
tools may not reach are closed to notices too, and a denied kind sends nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import NoetlError, ToolError
from noetl.base.redaction import Mask
from noetl.control.notifications.notices import NoticeMessage
from noetl.events.secret_materials import Material, secrets_in
from noetl.net.net import Destination
from noetl.tools.contract import UNKNOWN, ToolContext
from noetl.tools.registry import Registry

TIMEOUT_S = 30.0
_LONGEST = 500  # characters of a reason that are kept
_SECRET_FIELDS = ("secret", "signing_secret", "key", "value")

Materials = Callable[[str], Awaitable[Material]]


class NotSentError(NoetlError):
    """Why a notice did not arrive, without secrets. `is_final`: trying again would not help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Destinations:
    """`material` gives the fields of a credential by its name."""

    def __init__(self, tools: Registry, material: Materials, now: Callable[[], float]) -> None:
        self._tools, self._material, self._now = tools, material, now

    async def deliver(self, notice_id: str, destination: Destination, message: NoticeMessage) -> None:
        """Hand it over. NotSentError says why that failed."""
        mask = Mask()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                fields = await self._fields(destination, mask)
                kind, inputs = _call(destination, message, fields, notice_id, self._now())
                done = await self._tools.tool(kind).run(inputs, self._context(notice_id, fields, mask))
            if kind == "email" and isinstance(done.result, dict) and (refused := done.result.get("refused")):
                # Others have it by now, so it is not sent again by itself: they would get it twice.
                raise NotSentError(mask.redactor.text(_refused_text(done.result["accepted"], refused)), is_final=True)
        except NotSentError:
            raise
        except TimeoutError:
            raise NotSentError(f"{destination.kind}: no answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            said = mask.redactor.text(problem.message + _answer_text(problem.details.get("data")))
            raise NotSentError(said[:_LONGEST], is_final=not problem.retryable) from None
        except (NoetlError, OSError) as problem:
            raise NotSentError(mask.redactor.text(str(problem))[:_LONGEST]) from None

    async def close(self) -> None:
        await self._tools.close()

    async def _fields(self, destination: Destination, mask: Mask) -> dict[str, Any]:
        name = destination.options.get("auth")
        if not name:
            return {}
        material = await self._material(str(name))
        mask.learn(secrets_in(material))
        return material.fields

    def _context(self, notice_id: str, fields: Mapping[str, Any], mask: Mask) -> ToolContext:
        return ToolContext(
            execution_id=notice_id,
            step="notice",
            task="notice",
            attempt=1,
            task_run_id=notice_id,
            idempotency_key=notice_id,  # the Message-ID of a mail follows from it: the same for every attempt
            spec={},
            name=lambda _: UNKNOWN,
            resolve=lambda _: fields,
            tool=self._tools.tool,
            addresses=self._tools.addresses,
            masked=mask.redactor.text,
            now=self._now,
        )


def _answer_text(answer: Any) -> str:
    """What a service answered, on one line: often the only place that says what is wrong."""
    if answer in (None, "", {}, []):
        return ""
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return f": {' '.join(text.split())}"


def _refused_text(accepted: Sequence[str], refused: Sequence[Mapping[str, Any]]) -> str:
    each = "; ".join(f"{one['address']}: {one['code']} {one['message']}" for one in refused)
    return f"the mail server took it for {', '.join(accepted)} and refused {each}"[:_LONGEST]


def _call(
    destination: Destination, message: NoticeMessage, fields: Mapping[str, Any], notice_id: str, now: float
) -> tuple[str, dict[str, Any]]:
    """The kind of tool and its inputs."""
    options = destination.options
    match destination.kind:
        case "email":
            return "email", {**options, "subject": message.subject, "text": message.text}
        case "slack":
            return "slack", {**options, "text": f"*{message.subject}*\n{message.text}"}
        case "teams":
            return "teams", {**options, "title": message.subject, "text": message.text}
        case _:
            return "http", _webhook(options, message, fields, notice_id, now)


def _webhook(
    options: Mapping[str, Any], message: NoticeMessage, fields: Mapping[str, Any], notice_id: str, now: float
) -> dict[str, Any]:
    """A delivery as our own webhooks take them: signed over its timestamp and body where the credential has a key."""
    url = options.get("url") or fields.get("url") or fields.get("webhook_url")
    if not url:
        raise NotSentError('the webhook has no "url", and neither has its credential', is_final=True)
    body = msgspec.json.encode(message.data)
    timestamp = str(int(now))
    headers = {**(options.get("headers") or {}), "Content-Type": "application/json"}
    headers |= {"Noetl-Delivery": notice_id, "Noetl-Timestamp": timestamp}
    secret = next((str(fields[name]) for name in _SECRET_FIELDS if fields.get(name)), None)
    if secret is not None:
        # The timestamp is signed with the body, so that a delivery that was recorded cannot be sent again later.
        digest = hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()
        headers["Noetl-Signature"] = f"v1={digest}"
    return {"method": "POST", "url": str(url), "headers": headers, "body": body.decode()}


def shown_destination(destination: Destination) -> str:
    """Where it goes, for people to see. Of an address only the host: its path may be a key."""
    options = destination.options
    if destination.kind == "email":
        to = options.get("to")
        return f"email {', '.join(map(str, to)) if isinstance(to, list) else to}"
    if destination.kind == "webhook" and options.get("url"):
        return f"webhook {urlsplit(str(options['url'])).hostname or ''}".rstrip()
    return f"{destination.kind} {options.get('auth') or ''}".rstrip()
