"""`shell` and `script`: run programs of this machine, each in its own session, killed as a group.

Read first: `tool.py`, `programs.py`.
"""
