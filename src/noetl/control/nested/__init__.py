"""Nested playbooks: found by path, started once per task run, waited for. Also reruns from a step.

`reruns.py` finds the state that a rerun takes over from the earlier execution.

Read first: `calls.py`, `call_grants.py`.
"""
