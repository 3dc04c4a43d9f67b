"""Headers that every answer carries, so that a browser trusts it with no more than it needs (reliability.md §2.3).

There is no CORS header anywhere: pages of other origins have no business with this API.
"""

from __future__ import annotations

from starlette.types import Message

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
