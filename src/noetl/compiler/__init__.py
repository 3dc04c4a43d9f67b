"""Compiling: a `Playbook` of any dialect in, a `Net` with a debug map and diagnostics out.

`compilation.py` defines the form of a pass; `compiling.py` runs them in order and then lowers. Each check is one
module named for what it checks. Refuses to know: how a net is run.

Read first: `compiling.py`, `lowering/nets.py`, `scope_names.py`.
"""
