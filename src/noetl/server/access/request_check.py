"""One request at the gate, and its response.

The answer is audited where the rule of the route says so, gets the security headers that browsers need, and ends early
if the caller's token is revoked meanwhile. No answer has a CORS header: pages of other origins may not use this API
(reliability.md §2.3).
"""

from __future__ import annotations

from starlette.types import Message, Scope, Send

from noetl.base.errors import BackendError
from noetl.server.access.access import Access
from noetl.server.access.audit_writer import SESSION_PROBE
from noetl.server.access.callers import ANONYMOUS_LOOKUP
from noetl.server.logs import log
from noetl.server.problem_details import RETRY_AFTER_S, ProblemDetails, StreamEndedError, problem_response

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


def with_security_headers(start: Message, *, tls: bool) -> Message:
    """The start of an answer with security headers. Headers that the route has set itself stay."""
    headers = list(start.get("headers", ()))
    names = {name.lower() for name, _ in headers}
    added = [(name, value) for name, value in (ALWAYS | (ONLY_TLS if tls else {})).items() if name not in names]
    return {**start, "headers": headers + added}


UNKNOWN = "unknown"  # in place of a route, for an unknown path
# A stream may outlive its token: it ends at most this long after a revocation.
RECHECK_S = 15.0
_UNAVAILABLE = 503


class RequestCheck:
    """The state of one request at the gate."""

    def __init__(self, access: Access, scope: Scope, send: Send) -> None:
        self._access, self._scope, self._send = access, scope, send
        self.caller = ANONYMOUS_LOOKUP
        self.action = f"{scope['method']} {UNKNOWN}"
        self.reason = "refused"  # why a request without a valid token was refused, for the audit log
        self.is_audited = False
        self.is_unknown_path = False  # no route has its path
        self._is_replaced = False
        self._known_at = access.clock.now()

    async def answer(self, message: Message) -> None:
        """Send a part of the answer. The audit row of the request is durable before its first part."""
        # The answer of the route was replaced, so the remaining parts are dropped.
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            if not await self._is_audited_durably(message["status"]):
                self._is_replaced = True
                await self._send_audit_failure()
                return
            message = with_security_headers(message, tls=self._access.tls)
        elif message.get("more_body"):
            await self._recheck_caller()
        await self._send(message)

    async def _recheck_caller(self) -> None:
        """End a stream whose caller is no longer valid; checked every RECHECK_S."""
        now = self._access.clock.now()
        if now - self._known_at < RECHECK_S:
            return
        self._known_at = now
        if self.caller is not ANONYMOUS_LOOKUP and not await self._access.callers.is_still_valid(self.caller):
            raise StreamEndedError

    async def _is_audited_durably(self, status: int) -> bool:
        # 429 is not recorded: a client that sends too many requests would fill the audit log with refusals.
        if status not in (401, 403) and (not self.is_audited or status == 429):
            return True
        if self.caller is ANONYMOUS_LOOKUP and (self.action, self.reason, status) == SESSION_PROBE:
            return True
        actor, audit = self.caller.identity.subject, self._access.audit
        try:
            if self.caller is ANONYMOUS_LOOKUP and status in (401, 403):
                await audit.record_unauthenticated(self._scope, reason=self.reason, action=self.action, status=status)
            else:
                await audit.record(self._scope, actor=actor, action=self.action, status=status)
        except BackendError as problem:
            if status == _UNAVAILABLE:
                # The store is down, so the route changed nothing either, and its own answer says so.
                return True
            log.error("audit", problem=str(problem), action=self.action, status=status)
            return False
        return True

    async def _send_audit_failure(self) -> None:
        detail = "the audit log could not be written, so the change may or may not be made: check before you try again"
        retry = {"retry-after": str(RETRY_AFTER_S)}
        answer = problem_response(
            ProblemDetails(_UNAVAILABLE, detail, kind="audit", headers=retry), self._scope["path"]
        )
        start = {"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
        await self._send(with_security_headers(start, tls=self._access.tls))
        await self._send({"type": "http.response.body", "body": answer.body})
