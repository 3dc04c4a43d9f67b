"""The JSON Schema of playbooks, made from the declarations the checker uses. Read first: `playbook.py`."""
