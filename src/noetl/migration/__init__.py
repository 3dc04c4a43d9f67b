"""Migrating: a document of an older dialect in, v10 text with the same behaviour and its comments out.

What v10 cannot express is reported with its place, never guessed. Read first: `migrating.py` (the entry point),
`sheet.py` (text that keeps its comments), `case_sorting.py` (where each case rule goes).
"""
