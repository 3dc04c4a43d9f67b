"""The refusal of a request that cannot be sent as it is written; the tool adds which request it was."""

from __future__ import annotations


class Wrong(Exception):  # noqa: N818  it is the playbook's mistake, and becomes an ordinary error outcome
    """The request cannot be made; the text says why, and never shows a secret."""
