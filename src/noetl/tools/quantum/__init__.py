"""Quantum jobs (QNT): circuits, where they are placed, and who runs them."""
