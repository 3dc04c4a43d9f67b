"""`archive`: packs, unpacks and lists zip and tar files, in a child process with little memory.

An archive is taken for hostile: no member leaves its folder, nothing but files and folders is made, and what it
expands to is counted while it does. Read first: `tool.py`, `child.py`.
"""
