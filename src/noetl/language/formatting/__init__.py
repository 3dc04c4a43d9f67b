"""Formatting: the same playbook in one layout, every comment kept.

Read first: `formatter.py`, `order.py`, `model.py`.
"""
