"""`python`: runs the author's code in a child process with limits, which is killed as a group.

Read first: `tool.py`, `process.py`, `child/`.
"""
