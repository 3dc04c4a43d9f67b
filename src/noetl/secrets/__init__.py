"""Secrets: naming, lookup and encryption of credentials.

In: the name of a credential. Out: its fields, in memory, for the server that hands them to the worker holding the
order (`control/secrets/release.py`). Values in the vault are read by resolvers, and by the check of a credential
(`operations/credentials.py`).
Refuses to know: tools, and executions with their logs.

Read first: `keychain.py` (names to values), `vault.py` (stored credentials), `encryption.py`.
"""
