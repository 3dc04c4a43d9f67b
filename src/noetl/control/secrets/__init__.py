"""Which secrets an order may read, handing them to the worker that holds it, and masking them in what comes back.

Read first: `release.py`, `scopes.py`, `execution_secrets.py` (the masks).
"""
