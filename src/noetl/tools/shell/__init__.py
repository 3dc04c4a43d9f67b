"""Programs of this machine, run in a session of their own and killed as a group. Read first: `tool.py`,
`programs.py`."""
