"""Secrets: naming, lookup and encryption of credentials.

In: the name of a credential. Out: its fields, in memory, for the server that hands them to the worker holding the
order (`control/secrets/release.py`). Values go into the vault and come out to resolvers only.
Refuses to know: tools and events.

Read first: `keychain.py` (names to values), `vault.py` (stored credentials), `encryption.py`.
"""
