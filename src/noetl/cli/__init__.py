"""The command line: one module per command, or one for several commands about the same thing.

`main.py` finds the command, imports only its module and turns results into exit codes. A command talks to a server or a
local store through `connection.py` and does not know which. Commands contain texts and tables, no rules. Only running a
playbook differs between the two: `runs.py` says why, `embedded_runs.py` drives a run on a store in this process.

Read first: `main.py`, `connection.py`, `runs.py`.
"""
