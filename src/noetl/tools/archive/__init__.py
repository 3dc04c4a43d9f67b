"""`archive`: packs, unpacks and lists zip and tar files, in a child process with little memory.

Every archive counts as hostile: no member leaves its folder, only files and folders are created, and the expanded bytes
are counted while they are written. Read first: `tool.py`, `child.py`.
"""
