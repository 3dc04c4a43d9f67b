"""What both clients share about sending: how often, how long apart, and when to give up."""

from __future__ import annotations

from typing import Any

import httpx2

from noetl.client.requests import ApiRequest
from noetl.worker.backoff import delay_s

TRIES = 5  # of a request that may be sent twice
TIMEOUT_S = 30.0
STREAM_SILENCE_S = 60.0  # a server comments every 15 s; past this it is gone
_PASSING = (408, 429, 502, 503, 504)


def headers_for(token: str | None) -> dict[str, str]:
    told = {"User-Agent": "noetl-client", "Accept": "application/json"}
    return told if token is None else {**told, "Authorization": f"Bearer {token}"}


def arguments(request: ApiRequest[Any]) -> dict[str, Any]:
    """A request as httpx takes it."""
    headers = dict(request.headers)
    if request.content is not None:
        headers["Content-Type"] = request.media_type
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.params) or None,
        "content": request.content,
        "headers": headers,
        "timeout": TIMEOUT_S + request.wait_s,
    }


def pause_before_next(request: ApiRequest[Any], tries: int, response: httpx2.Response | None) -> float | None:
    """How long to wait before sending it again, None when that is not to be done."""
    if response is not None and response.status_code not in _PASSING:
        return None
    is_safe = request.again or (response is not None and response.status_code == 429)
    if not is_safe or tries >= TRIES:
        return None
    return delay_s(tries - 1, response.headers.get("Retry-After") if response is not None else None)
