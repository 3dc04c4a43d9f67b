"""Quantum jobs: circuits, where they are placed, and who runs them. Read first: `tool.py`, `providers.py`."""
