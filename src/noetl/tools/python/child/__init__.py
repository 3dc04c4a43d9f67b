"""The code of the child processes of the `python` tool, and of the template they are forked from.

An isolated interpreter (`-I`) loads this package by its folder under another name (`../entry.py`), so that no other
module of noetl is imported beside the author's code; hence the relative imports. A child starts at the first task of
an execution, so slow imports that are not needed at once, `typing` included, happen later. This is not a sandbox of the
language: the separate process contains the code, with limits, and is killed as a group.
"""
