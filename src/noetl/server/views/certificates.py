"""Certificates as the API shows them: the verdict, its findings where they belong in the text, and witnesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from noetl.server.views.diagnostics import all_shown

if TYPE_CHECKING:
    from noetl.language.proving.certificate import Certificate


def shown_certificate(found: Certificate) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(found)
    told["findings"] = [msgspec.to_builtins(one) for one in all_shown(found.findings)]
    return told
