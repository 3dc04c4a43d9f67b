"""The command line: one module per command.

`main.py` finds the command, imports only its module and turns results into exit codes. Read first: `main.py`, `run.py`,
`connection.py` (which server a command talks to).
"""
