"""Compiling: a `Playbook` of any dialect in, a `Net` with a debug map and diagnostics out.

`passes.py` defines the form of a pass; `compiler.py` runs them in order and then lowers. Each check is one module named
for what it checks. Refuses to know: how a net is run.

Read first: `compiler.py`, `lowering/nets.py`, `scope_names.py`.
"""
