"""What runs in the child processes of the `python` tool, and in the template they are forked from.

A clean interpreter (`-I`) loads it by its folder under a name of its own (`../entry.py`), so that nothing of noetl is
imported beside the author's code; hence its imports are relative. It starts at every first task of an execution, so
what is slow to import and not needed at once, `typing` included, waits. This is not a language-level
sandbox: what contains the code is a process of its own, with limits, killed as a group.
"""
