"""Quantum jobs: circuits, their placement on backends, and the providers that run them.

Read first: `kind.py`, `tool.py`, `providers.py`.
"""
