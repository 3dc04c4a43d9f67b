"""What a task's effective spec says about its request, with the defaults (SPEC-05, TOOL-04). Also the refusal of a
request that cannot be sent as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.durations import seconds

TIMEOUT_S = 30.0  # O-33
CONNECT_S = 10.0
TOTAL_S = 300.0  # of a timeout that is told by parts, so that a dribble ends too
MAX_BYTES = 64 * 1024 * 1024
_FALSE = frozenset({"false", "no", "off", "0"})


class RequestTimeout(msgspec.Struct, frozen=True):
    """How long a request may take."""

    connect_s: float = CONNECT_S
    read_s: float = TIMEOUT_S  # between two pieces of the answer
    total_s: float = TIMEOUT_S  # the whole run, redirects included

    def extension(self) -> dict[str, float | None]:
        """As the pool takes it; the wait for a free connection is bounded by the total alone."""
        return {"connect": self.connect_s, "read": self.read_s, "write": self.read_s, "pool": None}


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    timeout: RequestTimeout = RequestTimeout()
    ok_statuses: frozenset[int] = frozenset()
    follow_redirects: bool = True
    verify_ssl: bool = True
    max_bytes: int = MAX_BYTES
    auth_mode: str | None = None


def knobs_of(spec: Mapping[str, Any]) -> Knobs:
    try:
        return Knobs(
            timeout=_timeout(spec.get("timeout")),
            ok_statuses=frozenset(int(status) for status in spec.get("ok_statuses") or ()),
            follow_redirects=_flag(spec.get("follow_redirects")),
            verify_ssl=_flag(spec.get("verify_ssl")),
            max_bytes=int(spec.get("max_bytes") or MAX_BYTES),
            auth_mode=spec.get("auth_mode"),
        )
    except (TypeError, ValueError) as problem:
        raise Wrong(f"its spec cannot be read: {problem}") from None


def _timeout(written: Any) -> RequestTimeout:
    if written is None:
        return RequestTimeout()
    if not isinstance(written, Mapping):
        whole_s = seconds(written)
        return RequestTimeout(connect_s=whole_s, read_s=whole_s, total_s=whole_s)
    return RequestTimeout(
        connect_s=seconds(written.get("connect", CONNECT_S)),
        read_s=seconds(written.get("read", TIMEOUT_S)),
        total_s=seconds(written.get("total", TOTAL_S)),
    )


def _flag(written: Any) -> bool:
    """True unless it says otherwise; a template may give it as text."""
    return written.strip().lower() not in _FALSE if isinstance(written, str) else written is None or bool(written)


# The refusal of a request that cannot be sent as it is written; the tool adds which request it was.


class Wrong(Exception):  # noqa: N818  it is the playbook's mistake, and becomes an ordinary error outcome
    """The request cannot be made; the text says why, and never shows a secret."""
