"""From YAML text to a tree of nodes with positions, within limits on size and depth.

The entry point is `noetl.language.reading.yaml`. Read first: `tree.py`, `limits.py`, `parser_errors.py`.
"""
