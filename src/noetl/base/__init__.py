"""Shared basics: clock, ids, durations, errors, source positions, diagnostics, settings, redaction, and in `addresses`
which hosts a connection may go to.

In: nothing of NoETL. Out: small values and functions without knowledge of playbooks, stores or servers.
Refuses to know: everything above it. No module here imports another package of NoETL.

Read first: `diagnostics.py` (what the checker reports), `errors.py` (error classes by who is responsible),
`settings.py` (what an operator may choose).
"""
