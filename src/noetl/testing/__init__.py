"""Testing playbooks: one is run in memory, in virtual time, with fakes for tools, by a test in Python or in YAML.

pytest loads the plug-in with its fixture `run_playbook` when it is asked to (`-p noetl.testing.plugin`); `noetl test`
reads files in YAML (`yaml_tests.py`); docs/testing.md shows both. Read first: `plugin.py`, `playbook_runs.py`.
For authors of tools: `tool_conformance.py` is what every tool must pass, and runs one attempt (docs/write-a-tool.md).
"""
