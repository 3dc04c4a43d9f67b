"""Which secrets an order may read, and handing them to the worker that holds it.

Read first: `release.py`, `scopes.py`.
"""
