"""Identities that follow from their cause, so that a repeated decision makes nothing new (O-05, TOK-06)."""

from __future__ import annotations

from noetl.ids import derived


def token_id_of(execution_id: str, source_event_id: str | None = None, arc: int | None = None) -> str:
    """Of the token an arc makes on an event; with neither, of the start token."""
    return derived("token", execution_id, source_event_id or "", "" if arc is None else arc)


def run_id_of(token_id: str) -> str:
    return derived("run", token_id)


def order_id_of(step_run_id: str) -> str:
    return derived("order", step_run_id)
