"""The command line: one module per command.

`main.py` finds the command, imports only its module and turns results into exit codes. A command asks a server or a
local store through one port, `ask` in `connection.py`, and does not know which; it holds texts and tables, no rules.

Read first: `main.py`, `run.py`, `connection.py`.
"""
