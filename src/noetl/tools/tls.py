"""TLS contexts for tools whose credentials may bring an authority of their own."""

from __future__ import annotations

import ssl

from noetl.base.errors import ToolError


def tls_context(authority: str = "") -> ssl.SSLContext:
    """Trusts the authority, a certificate in PEM, and no other; without one, those of this machine."""
    try:
        return ssl.create_default_context(cadata=authority or None)
    except ssl.SSLError:
        raise ToolError("keychain.unresolved", 'the credential\'s "ca" is no certificate in PEM') from None
