"""One request on its way through the gate, and its answer on the way out.

On that way it is audited, if it must be, gets the headers browsers need, and ends early if its token is revoked
meanwhile. There is no CORS header anywhere: pages of other origins have no business with this API (reliability.md
§2.3).
"""

from __future__ import annotations

from starlette.types import Message, Scope, Send

from noetl.base.errors import BackendError
from noetl.server.access.access import Access
from noetl.server.access.callers import STRANGER
from noetl.server.logs import log
from noetl.server.problem_details import RETRY_AFTER_S, ProblemDetails, StreamEndedError, written

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
ALWAYS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}
ONLY_TLS = {b"strict-transport-security": b"max-age=31536000"}


def secured(start: Message, *, tls: bool) -> Message:
    """The start of an answer with these headers; a route's own word on caching and on content policy stands."""
    given = list(start.get("headers", ()))
    names = {name.lower() for name, _ in given}
    added = [(name, value) for name, value in (ALWAYS | (ONLY_TLS if tls else {})).items() if name not in names]
    return {**start, "headers": given + added}


UNKNOWN = "unknown"  # instead of a route, where there is none
# A stream outlives its request: a token that was revoked ends it within that time.
RECHECK_S = 15.0
_UNAVAILABLE = 503


class Visit:
    """What is known of a request so far."""

    def __init__(self, access: Access, scope: Scope, send: Send) -> None:
        self._access, self._scope, self._send = access, scope, send
        self.caller = STRANGER
        self.action = f"{scope['method']} {UNKNOWN}"
        self.reason = "refused"  # in a word, why a stranger was not let in
        self.is_audited = False
        self.leads_nowhere = False  # no route has its path
        self._is_silenced = False
        self._known_at = access.clock.now()

    async def answer(self, message: Message) -> None:
        """Send it on; what must be written down is durable before anybody hears of it."""
        if self._is_silenced:
            return
        if message["type"] == "http.response.start":
            if not await self._is_written(message["status"]):
                self._is_silenced = True
                await self._say_unwritten()
                return
            message = secured(message, tls=self._access.tls)
        elif message.get("more_body"):
            await self._still_known()
        await self._send(message)

    async def _still_known(self) -> None:
        """A stream may outlive the token it was opened with: it is asked for again now and then."""
        now = self._access.clock.now()
        if now - self._known_at < RECHECK_S:
            return
        self._known_at = now
        if self.caller is not STRANGER and not await self._access.callers.is_still_known(self.caller):
            raise StreamEndedError

    async def _is_written(self, status: int) -> bool:
        if status not in (401, 403) and (not self.is_audited or status == 429):
            return True
        actor, audit = self.caller.identity.subject, self._access.audit
        try:
            if self.caller is STRANGER and status in (401, 403):
                await audit.record_stranger(self._scope, reason=self.reason, action=self.action, status=status)
            else:
                await audit.record(self._scope, actor=actor, action=self.action, status=status)
        except BackendError as problem:
            if status == _UNAVAILABLE:
                return True  # nothing was changed, for the same reason, and the answer says so
            log.error("audit", problem=str(problem), action=self.action, status=status)
            return False
        return True

    async def _say_unwritten(self) -> None:
        detail = "this could not be written to the audit log, so nobody vouches for it: look before you ask again"
        retry = {"retry-after": str(RETRY_AFTER_S)}
        answer = written(ProblemDetails(_UNAVAILABLE, detail, kind="audit", headers=retry), self._scope["path"])
        start = {"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
        await self._send(secured(start, tls=self._access.tls))
        await self._send({"type": "http.response.body", "body": answer.body})
