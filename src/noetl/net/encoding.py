"""Nets as JSON text, and their content hash (the key of certificates and of the catalogue's versions)."""

from __future__ import annotations

import hashlib
from functools import cache

import msgspec

from noetl.net.net import Net

_encoder = msgspec.json.Encoder()
_canonical = msgspec.json.Encoder(order="sorted")


def to_json(net: Net) -> bytes:
    """Mappings keep the order they were written in: a loop may run over one (LOOP-12)."""
    return _encoder.encode(net)


def from_json(text: bytes | str) -> Net:
    return _decoder().decode(text)


@cache
def _decoder() -> msgspec.json.Decoder[Net]:
    """Made when it is first used: that takes as long as importing the package, and a run that begins reads no net."""
    return msgspec.json.Decoder(Net)


def content_hash(net: Net) -> str:
    """SHA-256 of the net with all keys sorted: equal for equal nets, whatever the text looked like."""
    return hashlib.sha256(_canonical.encode(net)).hexdigest()
