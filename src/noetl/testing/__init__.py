"""Testing playbooks with pytest: the fixture `run_playbook` runs one in memory, in virtual time, with fakes for tools.

pytest loads the plug-in when it is asked to (`-p noetl.testing.plugin`); docs/testing.md shows how. Read first:
`plugin.py`,
`playbook_runs.py`.
"""
