"""`python`: the author's code in a child process with limits, killed as a group.

Read first: `tool.py`, `children.py`, `child/`.
"""
