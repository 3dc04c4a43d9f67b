"""Trust: which certificates are trusted in a TLS connection to a server."""

from __future__ import annotations

import ssl
from pathlib import Path

from noetl.base.errors import RefusedError, ToolError

UNTRUSTED = "its certificate is not trusted here: name the authority that made it with --ca, or NOETL_CA"


def trusting(ca: str | Path | None, url: str = "") -> ssl.SSLContext | bool:
    """For a client's `verify`: with `ca`, a PEM file, the authorities in it and no others; else those of this
    machine. RefusedError when it cannot be read."""
    if ca is None:
        # httpx reads the authorities of the machine for every client, which takes longer than most commands. Plain HTTP
        # needs none; if a secure server is called anyway, a context without authorities refuses it.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else True
    place = Path(ca).expanduser()
    try:
        return ssl.create_default_context(cafile=str(place))
    except ssl.SSLError:
        raise RefusedError(f"{place} is not a PEM certificate") from None
    except OSError as problem:
        raise RefusedError(f"the CA file {place} cannot be read: {problem.strerror}") from None


def is_distrust(problem: BaseException | None) -> bool:
    """Whether the cause is a certificate that no trusted authority has signed."""
    while problem is not None:
        if isinstance(problem, ssl.SSLCertVerificationError):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def tls_context(authority: str = "") -> ssl.SSLContext:
    """Trusts the authority, a certificate in PEM, and no other; without one, those of this machine."""
    try:
        return ssl.create_default_context(cadata=authority or None)
    except ssl.SSLError:
        raise ToolError("keychain.unresolved", 'the credential\'s "ca" is not a PEM certificate') from None
