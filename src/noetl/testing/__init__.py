"""Testing playbooks with pytest: the fixture `run_playbook` runs one in memory, in virtual time, with fakes for tools.

pytest loads the plug-in when it is asked to (`-p noetl.testing.plugin`); docs/testing.md shows how. Read first:
`plugin.py`, `playbook_runs.py`. For authors of tools: `tool_calls.py` runs one attempt, `tool_conformance.py` is what
every tool must pass (docs/write-a-tool.md).
"""
