"""Starts of executions, and nested playbooks: finding them by path, starting them once per task run, waiting for them.

Read first: `calls.py`, `playbook_lookup.py`. Every execution begins with a `Start` (`engine/commands.py`).
"""
