"""The JSON Schema of playbooks. Tool inputs come from `tools/kinds`; the rest is written here, and a test compares
it with
the readers. Read first: `playbook.py`, `steps.py`."""
