"""Proving a net in a test: its certificate, and the codes of what was found."""

from __future__ import annotations

from noetl.language.proving.certificate import Certificate, analyse
from noetl.net.net import Net


def codes(checked: Net) -> list[str]:
    return [finding.code for finding in proof(checked).findings]


def proof(checked: Net, **more: int) -> Certificate:
    return analyse(checked, {}, **more)
