"""Nested playbooks: found by path, started once per task run, waited for. Also reruns from a step.

Read first: `calls.py`, `playbook_lookup.py`. Every execution begins with a `Start` (`engine/commands.py`).
"""
