"""Starts of executions, and nested playbooks: finding them by path, starting them once per task run, waiting for them.

Read first: `starts.py` (every execution begins here), `calls.py`.
"""
