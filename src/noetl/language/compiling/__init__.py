"""Compiling: a `Playbook` of any dialect in, a `Net` with a debug map and diagnostics out.

`passes.py` defines the form of a pass; `compiler.py` runs them in order and then lowers. A module holds the checks
of what it is named for. Refuses to know: how a net is run.

Read first: `compiler.py`, `lowering/steps.py`, `undefined_names.py`.
"""
