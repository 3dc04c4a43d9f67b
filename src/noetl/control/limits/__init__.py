"""Limits on how many executions of a playbook run at once. Read first: `playbook_concurrency.py`."""
