"""The JSON Schema of playbooks, made from the same declarations the checker uses."""
