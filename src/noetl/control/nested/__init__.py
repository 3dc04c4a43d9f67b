"""Nested playbooks: finding them by path, starting them once per task run, waiting for them.

Read first: `calls.py`.
"""
