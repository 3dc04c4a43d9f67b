"""Testing playbooks with pytest: the fixture `run_playbook` runs one in memory, in virtual time, with fakes for tools.

The plug-in is found by pytest itself (entry point `pytest11`); docs/testing.md shows how to use it.
"""
