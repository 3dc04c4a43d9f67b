"""Notice sender: sends notices that are due, in the background (NTF-03 to NTF-06).

Several servers may send: a server claims a notice for a while, and if it does not settle the notice in time, another
server claims it.

A message is sent by a tool, under the rules for tools: `email`, `slack` and `teams` are the tools of these names, a
webhook is a POST of the `http` tool. So addresses that tools may not reach are closed to notices too, and a denied kind
sends nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, NoetlError, Outage, ToolError
from noetl.base.redaction import Mask
from noetl.control.notifications.notices import NoticeBody, NoticeMessage, message_of
from noetl.control.notifications.rules import destination_secrets
from noetl.events.secret_materials import Material, secrets_in
from noetl.net.net import Destination
from noetl.store.contract import Commit
from noetl.store.notices import NoticeRow, Notices, NoticeState, Settlement
from noetl.tools.contract import UNKNOWN, TaskRunIdentity, ToolContext
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
    """Sends messages through tools. `material` returns the fields of a credential by its name."""

    def __init__(self, tools: Registry, material: Materials, now: Callable[[], float]) -> None:
        self._tools, self._material, self._now = tools, material, now

    async def deliver(self, notice_id: str, destination: Destination, message: NoticeMessage) -> None:
        """Send a message to a destination. NotSentError says why that failed."""
        mask = Mask()
        mask.learn(destination_secrets(destination.options))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                fields = await self._fields(destination, mask)
                kind, inputs = _call(destination, message, fields, notice_id, self._now())
                sent = await self._tools.tool(kind).run(inputs, self._context(notice_id, fields, mask))
            if kind == "email" and isinstance(sent.result, dict) and (refused := sent.result.get("refused")):
                # Final: the other recipients have the mail, and a retry would send it to them twice.
                raise NotSentError(mask.redactor.text(_refused_text(sent.result["accepted"], refused)), is_final=True)
        except NotSentError:
            raise
        except TimeoutError:
            raise NotSentError(f"{destination.kind}: no answer within {TIMEOUT_S:g} s") from None
        except ToolError as problem:
            reason = mask.redactor.text(problem.message + _answer_text(problem.details.get("data")))
            raise NotSentError(reason[:_LONGEST], is_final=not problem.retryable) from None
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
            task_run=TaskRunIdentity(
                execution_id=notice_id,
                step="notice",
                task="notice",
                attempt=1,
                task_run_id=notice_id,
                idempotency_key=notice_id,  # the Message-ID of a mail follows from it: the same for every attempt
            ),
            spec={},
            name=lambda _: UNKNOWN,
            resolve=lambda _: fields,
            tool=self._tools.tool,
            addresses=self._tools.addresses,
            mask=mask.redactor.text,
            now=self._now,
        )


def _answer_text(answer: Any) -> str:
    """The answer of a service on one line; often nothing else says what is wrong."""
    if answer in (None, "", {}, []):
        return ""
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return f": {' '.join(text.split())}"


def _refused_text(accepted: Sequence[str], refused: Sequence[Mapping[str, Any]]) -> str:
    reasons = "; ".join(f"{recipient['address']}: {recipient['code']} {recipient['message']}" for recipient in refused)
    return f"the mail server took it for {', '.join(accepted)} and refused {reasons}"[:_LONGEST]


def _call(
    destination: Destination, message: NoticeMessage, fields: Mapping[str, Any], notice_id: str, now: float
) -> tuple[str, dict[str, Any]]:
    """The tool kind for a destination, and its inputs."""
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
    """The request of a webhook, in the format that NoETL's own webhooks accept: signed over timestamp and body if the
    credential has a key."""
    url = options.get("url") or fields.get("url") or fields.get("webhook_url")
    if not url:
        raise NotSentError('the webhook has no "url", and neither has its credential', is_final=True)
    body = msgspec.json.encode(message.data)
    timestamp = str(int(now))
    headers = {**(options.get("headers") or {}), "Content-Type": "application/json"}
    headers |= {"Noetl-Delivery": notice_id, "Noetl-Timestamp": timestamp}
    secret = next((str(fields[name]) for name in _SECRET_FIELDS if fields.get(name)), None)
    if secret is not None:
        # The timestamp is signed with the body, so that a recorded request cannot be replayed later.
        digest = hmac.digest(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()
        headers["Noetl-Signature"] = f"v1={digest}"
    return {"method": "POST", "url": str(url), "headers": headers, "body": body.decode()}


def destination_text(destination: Destination) -> str:
    """A destination for people to read. Of a URL only the host is shown: its path may be a key."""
    options = destination.options
    if destination.kind == "email":
        to = options.get("to")
        return f"email {', '.join(map(str, to)) if isinstance(to, list) else to}"
    if destination.kind == "webhook" and options.get("url"):
        return f"webhook {urlsplit(str(options['url'])).hostname or ''}".rstrip()
    return f"{destination.kind} {options.get('auth') or ''}".rstrip()


POLL_S = 1.0
MOST_AT_ONCE = 16
# An attempt that takes longer than SLOW_S does not count against MOST_AT_ONCE any more: a destination that does not
# answer must not delay the others.
SLOW_S, MOST_OPEN = 2.0, 256
HELD_S = TIMEOUT_S * 2  # longer than an attempt may take
MOST_ATTEMPTS = 12
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 1800.0  # all attempts together take more than two hours

Counted = Callable[[str, str], None]
_log = logging.getLogger(__name__)


def pause_after(attempts: int) -> float:
    return float(min(FIRST_PAUSE_S * 2 ** (attempts - 1), LONGEST_PAUSE_S))


class NoticeSender:
    """Claims and sends notices. `counted` is called after every attempt, with the kind of destination and the outcome
    (sent, failed, dead)."""

    def __init__(self, notices: Notices, destinations: Destinations, clock: Clock, *, counted: Counted) -> None:
        self._notices, self._destinations, self._clock, self._counted = notices, destinations, clock, counted
        self._due = asyncio.Event()
        self._sending: dict[asyncio.Task[None], float] = {}  # attempts under way, and when they began

    def stored(self, commits: Sequence[Commit]) -> None:
        """A listener of commits: notices in them are sent at once."""
        if any(commit.notices for commit in commits):
            self._due.set()

    async def serve(self) -> None:
        outage = Outage(_log, "notices could not be looked for", "notices are looked for again")
        try:
            while True:
                self._due.clear()
                try:
                    is_full = await self.send_due()
                    outage.worked()
                except BackendError as problem:
                    is_full = False
                    outage.failed(problem)
                await self._pause(is_full)
        finally:
            # A notice whose attempt is cancelled here becomes due again after HELD_S; another server sends it.
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)
            await self._destinations.close()

    async def _pause(self, is_full: bool) -> None:
        """Wait until a commit brings notices, an attempt has ended, or it is time to look into the store."""
        if is_full and self._sending:
            await asyncio.wait(self._sending, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            return
        try:
            async with asyncio.timeout(POLL_S):
                await self._due.wait()
        except TimeoutError:
            pass

    async def send_due(self) -> bool:
        """Begin to send due notices; True when all places are taken."""
        now = self._clock.now()
        free = self._free_at(now)
        if free <= 0:
            return True
        claimed = await self._notices.claim(now=now, until=now + HELD_S, limit=free)
        for row in claimed:
            task = asyncio.create_task(self._attempt(row))
            self._sending[task] = now
            task.add_done_callback(self._sending.pop)
        return len(claimed) == free

    def _free_at(self, now: float) -> int:
        """How many attempts may begin now."""
        quick = sum(began > now - SLOW_S for began in self._sending.values())
        return min(MOST_AT_ONCE - quick, MOST_OPEN - len(self._sending))

    async def drained(self) -> None:
        """Wait until the attempts under way have ended."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def _attempt(self, row: NoticeRow) -> None:
        kind = "unknown"
        try:
            body = msgspec.json.decode(row.body, type=NoticeBody)
            kind = body.destination.kind
            message = message_of(row, body, now=self._clock.now())
            await self._destinations.deliver(row.notice_id, body.destination, message)
            problem = None
        except NotSentError as why:
            problem = why
        except Exception as why:  # a notice that breaks the sender must become a dead letter, not be retried forever
            problem = NotSentError(f"{type(why).__name__}: it could not be sent")
            _log.exception("notice %s broke the sender", row.notice_id)
        try:
            await self._settle(row, kind, problem)
        except BackendError as why:
            _log.warning("the outcome of notice %s could not be stored, it is sent again: %s", row.notice_id, why)

    async def _settle(self, row: NoticeRow, kind: str, problem: NotSentError | None) -> None:
        now = self._clock.now()
        if problem is None:
            settlement, outcome = Settlement(state=NoticeState.SENT, at=now, due_at=now), "sent"
        elif problem.is_final or row.attempts >= MOST_ATTEMPTS:
            settlement = Settlement(state=NoticeState.DEAD, at=now, due_at=now, error=str(problem))
            outcome = "dead"
        else:
            due_at = now + pause_after(row.attempts)
            settlement = Settlement(state=NoticeState.PENDING, at=now, due_at=due_at, error=str(problem))
            outcome = "failed"
        # Compare and set on the number of attempts: if another server has claimed it after HELD_S, only that server's
        # outcome counts.
        if await self._notices.settle(row.notice_id, attempts=row.attempts, settlement=settlement):
            self._counted(kind, outcome)
            if problem is not None:
                about = (row.event, row.path, row.execution_id, row.attempts, problem)
                _log.warning("notice of %s of %s (execution %s) not sent, attempt %d: %s", *about)
