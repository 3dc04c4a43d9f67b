"""The command line: one module per command, or one for several commands about the same thing.

`main.py` finds the command, imports only its module and turns results into exit codes. A command asks a server or a
local store through `connection.py` and does not know which; it holds texts and tables, no rules. Only running a
playbook differs between the two, because a run on a store is driven by this process: `runs.py` says so.

Read first: `main.py`, `connection.py`, `runs.py`.
"""
